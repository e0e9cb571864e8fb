// `osm status`: asks once, or until every proxy has applied an object.
#pragma once

#include <chrono>
#include <string>

#include "admin_client.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// The kinds and their short forms, for the help.
std::string status_kinds();

// KIND in any case, plural or short; NAME with or without its namespace.
// Failure: kInvalidArgument.
Result<ObjectKey> parse_status_object(const std::string& kind, const std::string& ns,
                                      const std::string& name);

// "500ms", "30s", "2m", or seconds without a unit. Failure: kInvalidArgument.
Result<std::chrono::milliseconds> parse_duration(const std::string& text);

struct StatusOptions {
  bool wait = false;
  std::chrono::milliseconds timeout{30000};
  bool as_json = false;
};

// Prints the last answer. Result: the exit code: 0 applied; 1 rejected, refused or failed; 2 not
// applied. Blocking: up to the time-out and one request more. A terminal is told how it goes.
int run_status(const AdminClient& client, const ObjectKey& object, const StatusOptions& options);

}  // namespace osm::cli
