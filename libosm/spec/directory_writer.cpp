// Writes the files that commands keep in a mesh directory. The version of an object is its
// document.
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/write_file.hpp"
#include "osm/spec/directory_store.hpp"
#include "spec/directory_scan.hpp"
#include "spec/object_file.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTryAgain{20};

struct OwnFile {
  GroupKind kind;  // of all its objects
  std::string_view name;
  std::string_view heading;
};

constexpr std::array kOwnFiles{
    OwnFile{kinds::kDenylist, kDenylistFile,
            "# Written by `osm deny`: identities that the mesh refuses.\n"},
    OwnFile{kinds::kMeshRootCertificate, kRootsFile,
            "# Written by `osm certificate rotate`: the roots of the mesh, the newest last.\n"}};

// Quoted unless YAML takes it for nothing but a name.
std::string own_name(std::string_view name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
  const bool text =
      !name.empty() && name.front() > '9' && name != "null" && name != "Null" && name != "NULL";
  return plain && text ? std::string(name) : json::serialize(json::string(name));
}

// A line for each member of the object and of its spec: JSON is YAML, too.
std::string own_text(const json::value& document) {
  const json::object* const object = document.if_object();
  if (!object) return "";
  std::string text = "---\n";
  for (const auto& [name, value] : *object) {
    const json::object* const spec = name == "spec" ? value.if_object() : nullptr;
    text.append(own_name(name)).append(spec && !spec->empty() ? ":\n" : ": ");
    if (spec && !spec->empty())
      for (const auto& [field, inside] : *spec)
        text.append("  ")
            .append(own_name(field))
            .append(": ")
            .append(json::serialize(inside))
            .append("\n");
    else if (value.is_string() && (name == "apiVersion" || name == "kind"))
      text.append(value.get_string()).append("\n");
    else
      text.append(json::serialize(value)).append("\n");
  }
  return text;
}

class DirectoryWriter final : public ObjectWriter {
 public:
  DirectoryWriter(std::string directory, std::chrono::milliseconds wait)
      : directory_(std::move(directory)), wait_(wait) {}

  Result<StoredObject> read(const ObjectKey& key) override {
    OSM_TRY(open_directory());
    OSM_TRY(const Place place, find_place(key));
    return place.stored();
  }

  Result<std::string> write(const Object& object, const std::string& expected) override {
    // As a reader will have it.
    const std::string text = own_text(with_version(*object.document, ""));
    OSM_TRY(const Objects next, read_objects(text, object.key.str()));
    if (next.size() != 1 || next.front()->key != object.key)
      return Error{ErrorCode::kInvalidArgument, object.key.str() + ": its document is another's"};
    OSM_TRY(change(object.key, expected, next));
    return version_of(*next.front());
  }

  Status remove(const ObjectKey& key, const std::string& expected) override {
    return change(key, expected, {});
  }

 private:
  using Objects = std::vector<std::shared_ptr<const Object>>;

  static std::string version_of(const Object& object) { return json::serialize(*object.document); }

  static std::size_t index_of(const ObjectKey& key, const Objects& objects) {
    const auto is_it = [&](const auto& object) { return object->key == key; };
    return static_cast<std::size_t>(std::ranges::find_if(objects, is_it) - objects.begin());
  }

  // An own file, and the place of an object in it; the end if it is not there.
  struct Place {
    std::string path, heading;
    Objects objects;
    std::size_t index;

    StoredObject stored() const {
      if (index == objects.size()) return {};
      return {version_of(*objects[index]), objects[index]};
    }
  };

  Result<Descriptor> open_directory() const {
    Descriptor opened(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened) return opened;
    return file_error(directory_, "Is --mesh-dir the controller's, and readable for this user?");
  }

  // The right to write, until the result is destroyed. The lock is on the directory itself, so
  // nothing is left behind in it.
  Result<Descriptor> lock() const {
    const auto deadline = steady_clock::now() + wait_;
    OSM_TRY(Descriptor locked, open_directory());
    while (::flock(locked.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return file_error(
            directory_,
            "The directory cannot be locked; run the command on the machine that has it");
      if (steady_clock::now() >= deadline)
        return Error{ErrorCode::kConflict,
                     directory_ +
                         ": another `osm deny` holds the lock on this directory, or `osm "
                         "certificate rotate`; nothing was written. Repeat the command, or end the "
                         "other one (`fuser -v` names it)"};
      std::this_thread::sleep_for(kTryAgain);
    }
    return locked;
  }

  Result<Place> find_place(const ObjectKey& key) const {
    const auto own =
        std::ranges::find_if(kOwnFiles, [&](const OwnFile& file) { return key.is(file.kind); });
    if (own == kOwnFiles.end())
      return Error{ErrorCode::kInvalidArgument,
                   key.str() + ": people write objects of this kind; edit the files"};
    OSM_TRY(check_place(key));
    Place place{directory_ + '/' + std::string(own->name), std::string(own->heading), {}, 0};
    const auto content = read_file(place.path);
    if (!content.ok() && content.error().code != ErrorCode::kNotFound)
      return content.error().with_context(place.path);
    if (content.ok()) {
      OSM_TRY(place.objects, read_objects(content->bytes, place.path));
    }
    for (const auto& object : place.objects)
      if (!object->key.is(own->kind))
        return Error{ErrorCode::kConflict, place.path + " holds more than valid " + key.kind +
                                               "s: move " + object->key.str() + " to another file"};
    place.index = index_of(key, place.objects);
    if (place.index == place.objects.size()) OSM_TRY(check_elsewhere(key, place.path));
    return place;
  }

  // Failure: a file other than `own` has the object. Only files with its name are parsed.
  Status check_elsewhere(const ObjectKey& key, const std::string& own) const {
    const auto scan = scan_directory(directory_, [](const std::string&) {});
    for (const auto& [below, signature] : scan.files) {
      const std::string path = directory_ + '/' + below;
      const auto content = read_file(path);
      if (path == own || !content.ok() || content->bytes.find(key.name) == std::string::npos)
        continue;
      const Objects objects = read_object_file(content->bytes, path).objects;
      if (index_of(key, objects) < objects.size())
        return Error{ErrorCode::kConflict,
                     key.str() + " is in another file, " + path + ": edit it there"};
    }
    return {};
  }

  // Puts `next` in the place of the object; empty: removes it.
  Status change(const ObjectKey& key, const std::string& expected, const Objects& next) const {
    OSM_TRY(const Descriptor locked, lock());
    OSM_TRY(Place place, find_place(key));
    if (place.stored().version != expected)
      return Error{ErrorCode::kConflict,
                   key.str() + ": was changed since it was read; read it again"};
    // Each document of the key goes: a reader would take the next one in place of the first.
    std::erase_if(place.objects, [&](const auto& object) { return object->key == key; });
    place.objects.insert(place.objects.begin() + static_cast<std::ptrdiff_t>(place.index),
                         next.begin(), next.end());
    std::string text = place.heading;
    for (const auto& object : place.objects) text += own_text(*object->document);
    OSM_TRY(const Objects kept, read_objects(text, place.path));
    if (!std::ranges::equal(kept, place.objects, [](const auto& one, const auto& other) {
          return version_of(*one) == version_of(*other);
        }))
      return Error{ErrorCode::kInternal,
                   place.path + " would lose a part of its objects; edit the file by hand"};
    return write_file({.path = place.path, .mode = 0644, .content = text});
  }

  const std::string directory_;
  const std::chrono::milliseconds wait_;
};

}  // namespace

std::unique_ptr<ObjectWriter> make_directory_writer(std::string directory,
                                                    std::chrono::milliseconds wait) {
  return std::make_unique<DirectoryWriter>(std::move(directory), wait);
}

}  // namespace osm::inline v1::spec
