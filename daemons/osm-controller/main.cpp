#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "controller.hpp"
#include "daemons/version.hpp"
#include "grpc_log.hpp"
#include "options.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "signals.hpp"

namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

}  // namespace

int main(int argc, char** argv) {
  osm::controller::Options options;
  if (const int code = osm::controller::parse_options(argc, argv, options); code >= 0) return code;
  const sigset_t awaited = osm::daemon::block_signals();
  // Debian's Abseil looks for cycles of gRPC's mutexes under one global lock, which took 20 to 27 %
  // of the CPU while 10,000 proxies connected.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Issuing, administration and credential plugins may wait: on threads of their own.
  osm::OwnRuntime runtime({.threads = std::max(2U, std::thread::hardware_concurrency()),
                           .blocking_threads = 4,
                           .least = options.log_level});
  const osm::controller::GrpcLog grpc_log(runtime.log);

  auto controller = osm::controller::Controller::start(options, runtime);
  if (!controller.ok()) {
    std::cerr << "osm-controller: " << controller.error().message << '\n';
    return 1;
  }
  runtime.log.info("osm-controller started",
                   {{"version", osm::kVersion},
                    {"commit", osm::kCommit},
                    {"mesh", options.on_kubernetes() ? "kubernetes" : options.mesh_dir},
                    {"state_dir", options.state_dir},
                    {"ads_address", (*controller)->ads_address()},
                    {"http_address", (*controller)->http_address()},
                    {"admin_address", (*controller)->admin_address()}});
  const char* signal = osm::daemon::wait_for_signal(awaited);
  runtime.log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*controller)->shutdown(kShutdownDeadline);
  *controller = nullptr;
  runtime.log.info("osm-controller stopped");
  return 0;
}
