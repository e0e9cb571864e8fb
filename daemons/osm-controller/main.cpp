#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "base/system.hpp"
#include "controller.hpp"
#include "daemons/version.hpp"
#include "grpc_log.hpp"
#include "net/json_log.hpp"
#include "options.hpp"

namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

// Blocked in every thread and taken by wait_for_signal(), so that no handler ever runs.
sigset_t block_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  return awaited;
}

// Result: the signal that asks to end. From then on another one ends the process at once.
const char* wait_for_signal(const sigset_t& awaited) {
  int number = 0;
  while (::sigwait(&awaited, &number) != 0) {
  }
  ::pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  return number == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace

int main(int argc, char** argv) {
  osm::controller::Options options;
  if (const int code = osm::controller::parse_options(argc, argv, options); code >= 0) return code;
  const sigset_t awaited = block_signals();
  const osm::SystemClock clock;
  osm::net::JsonLog log(STDERR_FILENO, options.log_level, clock);
  const osm::controller::GrpcLog grpc_log(log);

  auto controller = osm::controller::Controller::start(options, clock, log);
  if (!controller.ok()) {
    std::cerr << "osm-controller: " << controller.error().message << '\n';
    return 1;
  }
  log.info("osm-controller started", {{"version", osm::kVersion},
                                      {"commit", osm::kCommit},
                                      {"mesh_dir", options.mesh_dir},
                                      {"state_dir", options.state_dir},
                                      {"ads_address", (*controller)->ads_address()},
                                      {"http_address", (*controller)->http_address()},
                                      {"admin_address", (*controller)->admin_address()}});
  const char* signal = wait_for_signal(awaited);
  log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*controller)->shutdown(kShutdownDeadline);
  *controller = nullptr;
  log.info("osm-controller stopped");
  return 0;
}
