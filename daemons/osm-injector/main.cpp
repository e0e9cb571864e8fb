#include <unistd.h>

#include <chrono>
#include <iostream>

#include "daemon.hpp"
#include "daemons/version.hpp"
#include "options.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/system.hpp"
#include "signals.hpp"

namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

}  // namespace

int main(int argc, char** argv) {
  osm::injector::Options options;
  if (const int code = osm::injector::parse_options(argc, argv, options); code >= 0) return code;
  const sigset_t awaited = osm::daemon::block_signals();
  const osm::SystemClock clock;
  osm::net::JsonLog log(STDERR_FILENO, options.log_level, clock);

  auto daemon = osm::injector::Daemon::start(options, clock, log);
  if (!daemon.ok()) {
    std::cerr << "osm-injector: " << daemon.error().message << '\n';
    return 1;
  }
  log.info("osm-injector started", {{"version", osm::kVersion},
                                    {"commit", osm::kCommit},
                                    {"webhook_address", (*daemon)->webhook_address()},
                                    {"http_address", (*daemon)->http_address()}});
  const char* signal = osm::daemon::wait_for_signal(awaited);
  log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*daemon)->shutdown(kShutdownDeadline);
  *daemon = nullptr;
  log.info("osm-injector stopped");
  return 0;
}
