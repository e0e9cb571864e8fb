// `osm vm renew`: a machine replaces its own certificate, with a key that it makes itself.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace osm::cli {

struct RenewOptions {
  std::string directory;                           // what `osm vm bootstrap` wrote
  std::string controller;                          // HOST:PORT; empty: as the bootstrap says
  bool force = false;                              // also a certificate that is current; once
  std::optional<std::chrono::milliseconds> every;  // stays, and asks so often
  std::chrono::milliseconds timeout{10000};
  bool as_json = false;
};

// Asks the controller whether the machine's certificate and trust bundle are current, and replaces
// what is not. A line on standard output for what was done, on standard error for what failed.
// Result: the exit code: 0 current or renewed, or told to end; 1 failed. Blocking: once: until it
// is done; else until SIGTERM or SIGINT. Thread: the main one, before any other is started.
int renew_machine(const RenewOptions& options);

}  // namespace osm::cli
