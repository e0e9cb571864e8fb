// Files and directories that no other user may control: keys, and the state of a program.
#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

struct PrivatePath {
  std::string noun;  // for errors: "certificate authority"
  std::string path;
  // Rights of the group and of others that are refused.
  mode_t refused = S_IRWXG | S_IRWXO;
};

// An error kStorage "<noun> <path>: <action>: <text of `cause`>; <remedy>". `cause`: an errno.
OSM_API Error storage_error(const PrivatePath& at, std::string_view action, int cause);

// Checks that this user or root owns the file, and that its mode has none of the refused rights.
// Failure: kStorage with the mode or the owner, and the command that mends it. Thread: any.
OSM_API Status check_private(const PrivatePath& at, const struct stat& status);

// Opens the directory and checks it. If it is absent, makes it, and the parents that it lacks, with
// mode 0700. `flags`: O_NOFOLLOW to refuse a symbolic link, else 0.
// Failure: kStorage with the remedy. Thread: any. Blocking: disk.
OSM_API Result<Descriptor> open_private_directory(const PrivatePath& at, int flags);

}  // namespace osm::inline v1
