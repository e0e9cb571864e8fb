// Small files: certificates, keys, tokens, kubeconfigs.
#pragma once

#include <cstddef>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// The whole file, or the whole output of a pipe. It is read into one buffer without copies, so a
// caller that erases the text erases a secret.
// Failure: kUnreadableSource with path and cause, also if it holds more than `max_bytes`.
// Thread: any. Blocking: on the file.
OSM_API Result<std::string> read_file(const std::string& path, std::size_t max_bytes);

// As read_file(), of the file `name` in `directory`. The kernel follows symbolic links only as far
// as they stay in the directory, so nobody who may write there chooses another file.
// Failure: also if the kernel is older than Linux 5.6.
OSM_API Result<std::string> read_file_beneath(const std::string& directory, const std::string& name,
                                              std::size_t max_bytes);

}  // namespace osm::inline v1
