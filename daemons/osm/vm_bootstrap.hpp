// Writes what the controller made for a machine: each file atomically, with its mode and owner.
#pragma once

#include <sys/types.h>

#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "osm/result.hpp"

namespace osm::cli {

struct WriteOptions {
  std::string directory;       // absolute; made when it is not there
  std::optional<uid_t> owner;  // of the proxy's files
};

// `answer` is that of POST /v1/vm/bootstrap. The directory itself and what root runs stay the
// caller's, so that the proxy's user cannot replace them. A file is there whole or not at all.
// Failure: kStorage naming the file and the remedy. Result: what to do next, for people.
Result<std::string> write_bootstrap(const boost::json::value& answer, const WriteOptions& options);

}  // namespace osm::cli
