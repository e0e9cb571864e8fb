// Reads operators' files: PEM, and a password.
#pragma once

#include <string>

#include "osm/result.hpp"

namespace osm::inline v1::etcd {

// At most 1 MiB. Failure: kUnreadableSource, naming the file; never quoting it.
Result<std::string> read_file(const std::string& path);

}  // namespace osm::inline v1::etcd
