#include "daemon.hpp"

#include <algorithm>
#include <iostream>
#include <thread>

#include "daemons/version.hpp"
#include "http_side.hpp"
#include "process.hpp"

namespace osm::daemon {
namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};

}  // namespace

int run(const std::string& name, LogLevel least, const Start& start) {
  const sigset_t awaited = block_signals();
  // Issuing, administration and credential plugins may wait: on threads of their own.
  OwnRuntime runtime({.threads = std::max(2U, std::thread::hardware_concurrency()),
                      .blocking_threads = 4,
                      .least = least});
  describe_metrics(runtime.registry());
  runtime.metrics.set("osm_version_info", {{"version", kVersion}, {"git_commit", kCommit}}, 1);
  auto daemon = start(runtime);
  if (!daemon.ok()) {
    std::cerr << name << ": " << daemon.error().message << '\n';
    return 1;
  }
  if (runtime.log.enabled(LogLevel::kInfo)) {
    std::vector<LogField> facts{{"version", kVersion}, {"commit", kCommit}};
    for (auto& [key, value] : (*daemon)->facts()) facts.push_back({key, std::move(value)});
    runtime.log.write(LogLevel::kInfo, name + " started", facts);
  }
  const char* signal = wait_for_signal(awaited);
  runtime.log.info("shutting down; another signal ends it at once", {{"signal", signal}});
  (*daemon)->shutdown(kShutdownDeadline);
  *daemon = nullptr;
  runtime.log.info(name + " stopped");
  return 0;
}

Subscription follow_log_level(MeshSpec& spec, OwnRuntime& runtime, LogLevel otherwise) {
  const auto follow = [&spec, &runtime, otherwise] {
    runtime.json_log().set_least(spec.get_mesh_config().log_level.value_or(otherwise));
  };
  auto handle = spec.subscribe([follow](const auto&) { follow(); });
  follow();
  return handle;
}

void report(LogSink& log, const Status& ended) {
  if (!ended.ok()) log.warning("shutting down", {{"cause", ended.error().message}});
}

}  // namespace osm::daemon
