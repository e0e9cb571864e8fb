// A daemon's life: it starts, serves until a signal, and ends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "osm/executor.hpp"
#include "osm/host/health.hpp"
#include "osm/host/start.hpp"
#include "osm/net/address.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::daemon {

// Health asks it until it is destroyed.
class Daemon : public host::Monitored {
 public:
  // The addresses with their real ports, and others that the log tells when it has started.
  virtual std::vector<std::pair<const char*, std::string>> facts() const = 0;

  // Answers what was asked, and ends within `deadline`; then destroy it.
  virtual void shutdown(std::chrono::milliseconds deadline) = 0;
};

// Failure: the fault and the remedy, which run() prints.
using StartDaemon = std::function<Result<std::unique_ptr<Daemon>>(OwnRuntime&, host::Start&)>;

struct RunOptions {
  std::string name;
  LogLevel least = LogLevel::kInfo;
  net::Address http_address;
};

// Serves health, then starts a daemon and serves until SIGTERM or SIGINT. Result: the exit code.
// Thread: the main one, before any other is started.
int run(const RunOptions& options, const StartDaemon& start_daemon);

// `runtime` with these executors.
inline Runtime with_executors(const Runtime& runtime, Executor& executor, Executor& blocking) {
  return {executor, blocking, runtime.clock, runtime.rng, runtime.log, runtime.metrics};
}

// Logs a failure while the daemon ends.
void report(LogSink& log, const Status& ended);

}  // namespace osm::daemon
