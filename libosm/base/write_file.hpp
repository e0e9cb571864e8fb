// Small files that are replaced whole: a reader finds the old one or the new one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

struct FileOwner {
  uid_t user;
  gid_t group;
};

// The file at `path`, as it is to be. Lifetime: of `content` the caller's.
struct WholeFile {
  std::string path;
  mode_t mode = 0600;
  std::optional<FileOwner> owner{};  // nullopt: this process's
  std::string_view content;
};

inline constexpr std::string_view kFreeSpace = "Check the directory's free space and permissions";

// kStorage with path, reason and remedy. `errno` has the reason.
OSM_API Error file_error(const std::string& path, std::string_view remedy);

// Writes a new file `temporary`, to take the place of the one at `file.path`. Failure: kStorage
// naming `file.path`; no file is left behind. Thread: any, one at a time for one path. Blocking:
// until the disk has it.
OSM_API Status write_new_file(const std::string& temporary, const WholeFile& file);

// Writes the file in place of the one at its path, by a temporary one `.NAME.PID` beside it. A
// killed process may leave that one behind; the next writer with its PID deletes it. Failure,
// thread, blocking: as write_new_file().
OSM_API Status write_file(const WholeFile& file);

}  // namespace osm::inline v1
