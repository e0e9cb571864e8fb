// Threads of a daemon that wait for servers, watched for /health/alive.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/watched_executor.hpp"
#include "osm/clock.hpp"
#include "osm/metrics.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::daemon {

class WatchedThreads {
 public:
  // As net::Threads and WatchedExecutor.
  WatchedThreads(unsigned count, std::string name, const Clock& clock)
      : threads_(count), executor_(std::move(name), threads_.executor(), clock) {}

  WatchedExecutor& executor() { return executor_; }
  const WatchedExecutor& executor() const { return executor_; }

 private:
  net::Threads threads_;
  WatchedExecutor executor_;
};

// Takes each value for a sign that the task goes on which records it. Calls of the API server and
// of Vault are counted: a task may make any number of them, each of which ends in time.
class TickingMetrics final : public MetricsSink {
 public:
  // Lifetime: `metrics` outlives it.
  explicit TickingMetrics(MetricsSink& metrics) : metrics_(metrics) {}

  void record(const MetricDescriptor& metric, MetricLabels labels, double value) override {
    WatchedExecutor::tick();
    metrics_.record(metric, labels, value);
  }

 private:
  MetricsSink& metrics_;
};

// A runtime whose `blocking` is watched, and whose metrics tick.
class WatchedRuntime {
 public:
  // `name`: the work of `blocking`. Lifetime: what `runtime` borrows outlives it.
  WatchedRuntime(std::string name, const Runtime& runtime)
      : metrics_(runtime.metrics),
        blocking_(std::move(name), runtime.blocking, runtime.clock),
        runtime_{runtime.executor, blocking_, runtime.clock, runtime.rng, runtime.log, metrics_} {}
  WatchedRuntime(const WatchedRuntime&) = delete;

  const Runtime& runtime() const { return runtime_; }
  // With these executors.
  Runtime with(Executor& executor, Executor& blocking) const {
    return {executor, blocking, runtime_.clock, runtime_.rng, runtime_.log, runtime_.metrics};
  }
  const WatchedExecutor& blocking() const { return blocking_; }

 private:
  TickingMetrics metrics_;
  WatchedExecutor blocking_;
  const Runtime runtime_;
};

// The executors that hang, in words.
inline std::vector<std::string> hanging(std::initializer_list<const WatchedExecutor*> executors) {
  std::vector<std::string> names;
  for (const WatchedExecutor* executor : executors)
    if (const Status alive = executor->check(); !alive.ok()) names.push_back(alive.error().message);
  return names;
}

}  // namespace osm::daemon
