// A Runtime for hosts without threads, log and metrics of their own:
//
//   osm::OwnRuntime runtime({.least = osm::LogLevel::kWarning});
//   auto store = osm::spec::make_directory_store({directory, runtime.asio(), runtime});
//
// It has the system's clock and generator, a few threads, a JSON log and metrics for Prometheus.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/runtime/asio_executor.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/prometheus_registry.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1 {

// Number of threads of an OwnRuntime, and its log.
struct OwnRuntimeOptions {
  unsigned threads = 2;           // for `executor`; more threads encode more resources at once
  unsigned blocking_threads = 2;  // bound of `blocking`; plugins that wait for each other need two
  std::string blocking_name = "blocking";  // the work of `blocking`, for Lanes::hanging()
  LogLevel least = LogLevel::kInfo;
  int log_fd = 2;  // standard error; stays the caller's
};

// Pass it where a Runtime is asked for. To replace one part, copy the others:
// Runtime{own.executor, own.blocking, own.clock, own.rng, my_log, own.metrics}.
// Lifetime: outlives everything made with it, its copies as Runtime included.
class OSM_API OwnRuntime : public Runtime {
 public:
  // Starts the threads of `executor`, of the log and of timers; a lane's are started when there is
  // work. Blocking: no.
  explicit OwnRuntime(const OwnRuntimeOptions& options = {});

  // Runs remaining tasks, for a second at most per executor, and ends the threads. The blocking
  // ones end first, since their tasks use the others. Other lanes are gone before.
  // Thread: any but its own. Blocking: until the running tasks have returned.
  ~OwnRuntime();
  OwnRuntime(const OwnRuntime&) = delete;
  OwnRuntime& operator=(const OwnRuntime&) = delete;

  // All are parts of the Runtime with their own types: `executor` to watch descriptors or serve
  // HTTP, the lanes, of which `blocking` is one, `log` to change the level, the values of `metrics`
  // to expose them.
  // Thread: any. Blocking: no.
  net::AsioExecutor& asio() const;
  net::Lanes& lanes() const;
  net::JsonLog& json_log() const;
  net::PrometheusRegistry& registry() const;

 private:
  class Parts;
  explicit OwnRuntime(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace osm::inline v1
