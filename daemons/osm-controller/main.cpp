#include <unistd.h>

#include <chrono>
#include <iostream>

#include "controller.hpp"
#include "daemons/version.hpp"
#include "grpc_log.hpp"
#include "options.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/system.hpp"
#include "signals.hpp"

namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

}  // namespace

int main(int argc, char** argv) {
  osm::controller::Options options;
  if (const int code = osm::controller::parse_options(argc, argv, options); code >= 0) return code;
  const sigset_t awaited = osm::daemon::block_signals();
  const osm::SystemClock clock;
  osm::net::JsonLog log(STDERR_FILENO, options.log_level, clock);
  const osm::controller::GrpcLog grpc_log(log);

  auto controller = osm::controller::Controller::start(options, clock, log);
  if (!controller.ok()) {
    std::cerr << "osm-controller: " << controller.error().message << '\n';
    return 1;
  }
  log.info("osm-controller started",
           {{"version", osm::kVersion},
            {"commit", osm::kCommit},
            {"mesh", options.on_kubernetes() ? "kubernetes" : options.mesh_dir},
            {"state_dir", options.state_dir},
            {"ads_address", (*controller)->ads_address()},
            {"http_address", (*controller)->http_address()},
            {"admin_address", (*controller)->admin_address()}});
  const char* signal = osm::daemon::wait_for_signal(awaited);
  log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*controller)->shutdown(kShutdownDeadline);
  *controller = nullptr;
  log.info("osm-controller stopped");
  return 0;
}
