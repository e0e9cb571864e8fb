#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "daemon.hpp"
#include "daemons/version.hpp"
#include "options.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "signals.hpp"

namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

}  // namespace

int main(int argc, char** argv) {
  osm::injector::Options options;
  if (const int code = osm::injector::parse_options(argc, argv, options); code >= 0) return code;
  const sigset_t awaited = osm::daemon::block_signals();
  // Issuing, administration and credential plugins may wait: on threads of their own.
  osm::OwnRuntime runtime({.threads = std::max(2U, std::thread::hardware_concurrency()),
                           .blocking_threads = 4,
                           .least = options.log_level});

  auto daemon = osm::injector::Daemon::start(options, runtime);
  if (!daemon.ok()) {
    std::cerr << "osm-injector: " << daemon.error().message << '\n';
    return 1;
  }
  runtime.log.info("osm-injector started", {{"version", osm::kVersion},
                                            {"commit", osm::kCommit},
                                            {"webhook_address", (*daemon)->webhook_address()},
                                            {"http_address", (*daemon)->http_address()}});
  const char* signal = osm::daemon::wait_for_signal(awaited);
  runtime.log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*daemon)->shutdown(kShutdownDeadline);
  *daemon = nullptr;
  runtime.log.info("osm-injector stopped");
  return 0;
}
