#include "spec/directory_scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/descriptor.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxDirectoryDepth = 16;

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

FileSignature signature(const struct stat& info) {
  return {info.st_dev, info.st_ino, info.st_size, nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

struct Walk {
  const std::string& root;
  const std::function<void(const std::string&)>& on_directory;
  DirectoryScan scan{};
  std::vector<std::pair<dev_t, ino_t>> ancestors{};

  void visit(const std::string& below) {
    on_directory(below);
    const std::string path = below.empty() ? root : root + '/' + below;
    const std::unique_ptr<DIR, CloseDirectory> directory(opendir(path.c_str()));
    struct stat info {};
    if (!directory || fstat(dirfd(directory.get()), &info) != 0) {
      scan.unreadable.emplace_back(below, std::strerror(errno));
      return;
    }
    const std::pair id{info.st_dev, info.st_ino};
    if (below.empty()) scan.root = id;
    if (std::find(ancestors.begin(), ancestors.end(), id) != ancestors.end()) return;
    if (ancestors.size() >= kMaxDirectoryDepth) {
      scan.unreadable.emplace_back(below, "more than 16 directories deep");
      return;
    }
    ancestors.push_back(id);
    while (const dirent* entry = readdir(directory.get())) visit_entry(below, path, entry->d_name);
    ancestors.pop_back();
  }

  void visit_entry(const std::string& below, const std::string& path, const std::string& name) {
    struct stat info {};
    if (name.starts_with('.') || stat((path + '/' + name).c_str(), &info) != 0) return;
    const std::string inner = below.empty() ? name : below + '/' + name;
    if (S_ISDIR(info.st_mode)) {
      visit(inner);
    } else if (S_ISREG(info.st_mode) && is_object_file_name(name)) {
      scan.files.emplace(inner, signature(info));
    }
  }
};

Error unreadable_error(const char* what) {
  const bool gone = errno == ENOENT || errno == ENOTDIR;
  return {gone ? ErrorCode::kNotFound : ErrorCode::kUnreadableSource,
          std::string(what) + ": " + std::strerror(errno)};
}

}  // namespace

bool is_object_file_name(std::string_view name) {
  return !name.starts_with('.') &&
         (name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
}

DirectoryScan scan_directory(const std::string& root,
                             const std::function<void(const std::string&)>& on_directory) {
  Walk walk{root, on_directory};
  walk.visit("");
  return std::move(walk.scan);
}

std::optional<FileSignature> signature_of(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return signature(info);
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<FileContent> read_file(const std::string& path) {
  // Open without blocking: the name may belong to a pipe by now.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return unreadable_error("cannot be opened");
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return unreadable_error("cannot be read");
  if (!S_ISREG(info.st_mode)) return Error{ErrorCode::kNotFound, "not a regular file"};
  FileContent content;
  content.signature = signature(info);
  // Read one byte more than the expected size, to notice a file that grows.
  content.bytes.resize(std::min(static_cast<std::size_t>(info.st_size), kMaxFileBytes) + 1);
  if (!read_all(file, content.bytes)) return unreadable_error("cannot be read");
  if (content.bytes.size() > kMaxFileBytes)
    return Error{ErrorCode::kTooLarge, "larger than 3 MB; split the file"};
  content.stable = fstat(file.get(), &info) == 0 && signature(info) == content.signature &&
                   static_cast<std::int64_t>(content.bytes.size()) == content.signature.size;
  return content;
}

}  // namespace osm::inline v1::spec
