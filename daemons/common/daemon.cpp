#include "daemon.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <shared_mutex>
#include <thread>

#include "daemons/version.hpp"
#include "process.hpp"

namespace osm::daemon {
namespace {

constexpr Gauge kVersionInfo{
    "osm_version_info", "1, labelled with what was built", {"version", "git_commit"}};
constexpr Gauge kProcessStartTime{"process_start_time_seconds",
                                  "Start of the process, in seconds since 1970"};

constexpr std::chrono::seconds kShutdownDeadline{5};
constexpr std::chrono::milliseconds kHttpDeadline{600};
constexpr std::chrono::milliseconds kLastLines{1000};

// The source of health and metrics: first the start, then the daemon.
class Monitored {
 public:
  explicit Monitored(const Startup& startup) : startup_(startup) {}

  // Null: the daemon is about to be destroyed.
  void set(const Daemon* daemon) {
    const std::unique_lock lock(mutex_);
    daemon_ = daemon;
  }

  Result<std::unique_ptr<net::HttpServer>> serve(const net::Address& address, OwnRuntime& runtime) {
    return start_http_side({.address = address,
                            .runtime = runtime,
                            .missing =
                                [this] {
                                  const std::shared_lock lock(mutex_);
                                  return daemon_ ? daemon_->missing() : startup_.missing();
                                },
                            .hanging =
                                [this, &lanes = runtime.lanes()] {
                                  const std::shared_lock lock(mutex_);
                                  if (!daemon_) return std::vector<std::string>();
                                  std::vector<std::string> parts = daemon_->hanging();
                                  for (std::string& lane : lanes.hanging())
                                    parts.push_back(std::move(lane));
                                  return parts;
                                },
                            .problems =
                                [this] {
                                  const std::shared_lock lock(mutex_);
                                  return daemon_ ? daemon_->problems() : startup_.problems();
                                },
                            .mesh =
                                [this] {
                                  const std::shared_lock lock(mutex_);
                                  return daemon_ ? daemon_->mesh() : std::nullopt;
                                }});
  }

 private:
  const Startup& startup_;
  std::shared_mutex mutex_;
  const Daemon* daemon_ = nullptr;  // guarded by mutex_
};

// After the lines of the log. If nobody reads them, the process ends all the same.
int fail(const std::string& name, const Error& error, OwnRuntime& runtime) {
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  if (runtime.json_log().flush(kLastLines) && ::poll(&reader, 1, 0) == 1)
    std::cerr << name << ": " << error.message << '\n';
  return 1;
}

}  // namespace

int run(const RunOptions& options, const Start& start) {
  const std::string& name = options.name;
  EndSignal signal;
  raise_descriptor_limit();
  // Issuing and credential plugins may wait: on threads of their own.
  OwnRuntime runtime({.threads = std::max(2U, std::thread::hardware_concurrency()),
                      .blocking_threads = 4,
                      .blocking_name = "certificates and credentials",
                      .least = options.least});
  runtime.metrics.set(kVersionInfo, {{"version", kVersion}, {"git_commit", kCommit}}, 1);
  runtime.metrics.set(kProcessStartTime, {}, runtime.clock.wall_now().time_since_epoch());
  Startup startup(runtime, signal);
  Monitored monitored(startup);
  auto http = monitored.serve(options.http_address, runtime);
  if (!http.ok()) return fail(name, http.error(), runtime);
  startup.set_http_address((*http)->address());
  // Nothing is served yet that an end at once would break, and an attempt may take long.
  signal.exit_soon([&] {
    runtime.log.info(name + " stopped while it started");
    runtime.json_log().flush(kLastLines);
  });
  auto daemon = start(runtime, startup);
  signal.exit_soon(nullptr);
  if (!daemon.ok() && signal.wait_for({})) {
    runtime.log.info(name + " stopped while it started");
    return 0;
  }
  if (!daemon.ok()) return fail(name, daemon.error(), runtime);
  monitored.set(daemon->get());
  if (runtime.log.enabled(LogLevel::kInfo)) {
    std::vector<LogField> facts{{"version", kVersion}, {"commit", kCommit}};
    for (auto& [key, value] : (*daemon)->facts()) facts.push_back({key, std::move(value)});
    facts.push_back({"http_address", (*http)->address().str()});
    runtime.log.write(LogLevel::kInfo, name + " started", facts);
  }
  runtime.log.info("shutting down; another signal ends it at once", {{"signal", signal.wait()}});
  (*daemon)->shutdown(kShutdownDeadline);
  report(runtime.log, (*http)->stop(kHttpDeadline));
  monitored.set(nullptr);
  *daemon = nullptr;
  runtime.log.info(name + " stopped");
  return 0;
}

void report(LogSink& log, const Status& ended) {
  if (!ended.ok()) log.warning("shutting down", {{"cause", ended.error().message}});
}

}  // namespace osm::daemon
