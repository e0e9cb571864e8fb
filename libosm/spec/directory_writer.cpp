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

// A line for each member of the object and of its spec: JSON is YAML, too.
std::string own_text(const json::value& document) {
  const json::object* const object = document.if_object();
  if (!object) return "";
  std::string text = "---\n";
  for (const auto& [name, value] : *object) {
    const json::object* const spec = name == "spec" ? value.if_object() : nullptr;
    text.append(name).append(spec && !spec->empty() ? ":\n" : ": ");
    if (spec && !spec->empty())
      for (const auto& [field, inside] : *spec)
        text.append("  ").append(field).append(": ").append(json::serialize(inside)).append("\n");
    else if (value.is_string() && (name == "apiVersion" || name == "kind"))
      text.append(value.get_string()).append("\n");
    else
      text.append(json::serialize(value)).append("\n");
  }
  return text;
}

using OwnObjects = std::vector<std::shared_ptr<const Object>>;

auto find_own(OwnObjects& objects, const ObjectKey& key) {
  return std::ranges::find_if(objects, [&](const auto& object) { return object->key == key; });
}

class DirectoryWriter final : public ObjectWriter {
 public:
  explicit DirectoryWriter(DirectoryWriterOptions options) : options_(std::move(options)) {}

  Result<StoredObject> read(const ObjectKey& key) override {
    OSM_TRY(const OwnFile own, own_file(key));
    OSM_TRY(open_directory());
    OSM_TRY(OwnObjects objects, load(own));
    const auto at = find_own(objects, key);
    if (at != objects.end()) return StoredObject{version_of(**at), *at};
    OSM_TRY(check_elsewhere(own, key));
    return StoredObject{};
  }

  Result<std::string> write(const Object& object, const std::string& expected) override {
    // As a reader will have it.
    const std::string text = own_text(with_version(*object.document, ""));
    OSM_TRY(const OwnObjects next, read_objects(text, object.key.str()));
    if (next.size() != 1 || next.front()->key != object.key)
      return Error{ErrorCode::kInvalidArgument, object.key.str() + ": its document is another's"};
    OSM_TRY(change(object.key, expected, next.front()));
    return version_of(*next.front());
  }

  Status remove(const ObjectKey& key, const std::string& expected) override {
    return change(key, expected, nullptr);
  }

 private:
  static std::string version_of(const Object& object) { return json::serialize(*object.document); }

  static Result<OwnFile> own_file(const ObjectKey& key) {
    for (const OwnFile& own : kOwnFiles)
      if (key.is(own.kind)) {
        OSM_TRY(check_place(key));
        return own;
      }
    return Error{ErrorCode::kInvalidArgument,
                 key.str() + ": people write objects of this kind; edit the files"};
  }

  std::string path_of(std::string_view file) const {
    return options_.directory + '/' + std::string(file);
  }

  Result<Descriptor> open_directory() const {
    Descriptor opened(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened) return opened;
    return file_error(options_.directory,
                      "Is --mesh-dir the controller's, and readable for this user?");
  }

  // The right to write, until the result is destroyed. The lock is on the directory itself, so
  // nothing is left behind in it.
  Result<Descriptor> lock() const {
    const auto deadline = steady_clock::now() + options_.wait;
    OSM_TRY(Descriptor directory, open_directory());
    while (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK)
        return file_error(
            options_.directory,
            "The directory cannot be locked; run the command on the machine that has it");
      if (steady_clock::now() >= deadline)
        return Error{ErrorCode::kConflict,
                     options_.directory +
                         ": another `osm deny` holds the lock on this directory, or `osm "
                         "certificate rotate`; nothing was written. Repeat the command, or end the "
                         "other one (`fuser -v` names it)"};
      std::this_thread::sleep_for(kTryAgain);
    }
    return directory;
  }

  // The objects of an own file, which need not exist.
  Result<OwnObjects> load(const OwnFile& own) const {
    const std::string path = path_of(own.name);
    const auto content = read_file(path);
    if (!content.ok()) {
      if (content.error().code == ErrorCode::kNotFound) return OwnObjects();
      return content.error().with_context(path);
    }
    OSM_TRY(OwnObjects objects, read_objects(content->bytes, path));
    for (const auto& object : objects)
      if (!object->key.is(own.kind))
        return Error{ErrorCode::kConflict, path + " holds more than valid " +
                                               std::string(own.kind.kind) + "s: move " +
                                               object->key.str() + " to another file"};
    return objects;
  }

  // Failure: another file has the object. Only files with the object's name are parsed.
  Status check_elsewhere(const OwnFile& own, const ObjectKey& key) const {
    const auto scan = scan_directory(options_.directory, [](const std::string&) {});
    for (const auto& [file, signature] : scan.files) {
      if (file == own.name) continue;
      const auto content = read_file(path_of(file));
      if (!content.ok() || content->bytes.find(key.name) == std::string::npos) continue;
      OwnObjects objects = read_object_file(content->bytes, file).objects;
      if (find_own(objects, key) != objects.end())
        return Error{ErrorCode::kConflict,
                     key.str() + " is in another file, " + path_of(file) + ": edit it there"};
    }
    return {};
  }

  // Puts `next` in the place of the object; null: removes it.
  Status change(const ObjectKey& key, const std::string& expected,
                std::shared_ptr<const Object> next) const {
    OSM_TRY(const OwnFile own, own_file(key));
    OSM_TRY(const Descriptor locked, lock());
    OSM_TRY(OwnObjects objects, load(own));
    const auto at = find_own(objects, key);
    const bool present = at != objects.end();
    if ((present ? version_of(**at) : "") != expected)
      return Error{ErrorCode::kConflict,
                   key.str() + ": was changed since it was read; read it again"};
    if (!present) OSM_TRY(check_elsewhere(own, key));
    if (present && next)
      *at = std::move(next);
    else if (present)
      objects.erase(at);
    else if (next)
      objects.push_back(std::move(next));
    std::string text(own.heading);
    for (const auto& object : objects) text += own_text(*object->document);
    return write_file({.path = path_of(own.name), .mode = 0644, .content = text});
  }

  const DirectoryWriterOptions options_;
};

}  // namespace

std::unique_ptr<ObjectWriter> make_directory_writer(DirectoryWriterOptions options) {
  return std::make_unique<DirectoryWriter>(std::move(options));
}

}  // namespace osm::inline v1::spec
