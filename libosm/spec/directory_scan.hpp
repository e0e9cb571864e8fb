// The object files of a directory tree, and their bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/result.hpp"

namespace osm::inline v1::spec {

// Changes whenever the file changes, except for edits of equal size within one tick of the file
// system's clock.
struct FileSignature {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  friend bool operator==(const FileSignature&, const FileSignature&) = default;
};

// True for *.yaml, *.yml and *.json that are not hidden. Editors' temporary files do not match.
bool is_object_file_name(std::string_view name);

struct DirectoryScan {
  std::map<std::string, FileSignature> files;  // by path below the root, '/' between parts
  std::vector<std::pair<std::string, std::string>> unreadable;  // directory below the root, reason
  // Device and inode of the root; nullopt when it cannot be read.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> root;
};

// Walks the tree. It calls `on_directory` before it lists a directory ("" is the root). It follows
// symbolic links, cuts loops and skips hidden directories.
DirectoryScan scan_directory(const std::string& root,
                             const std::function<void(const std::string& below)>& on_directory);

// Nullopt when there is no regular file.
std::optional<FileSignature> signature_of(const std::string& path);

bool is_directory(const std::string& path);

struct FileContent {
  std::string bytes;
  FileSignature signature;
  bool stable = true;  // false: the file changed while it was read
};

// Failure: kUnreadableSource, kTooLarge; kNotFound if the file vanished.
Result<FileContent> read_file(const std::string& path);

}  // namespace osm::inline v1::spec
