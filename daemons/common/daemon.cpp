#include "daemon.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "daemons/version.hpp"
#include "process.hpp"

namespace osm::daemon {
namespace {

constexpr std::chrono::seconds kShutdownDeadline{5};
constexpr std::chrono::milliseconds kHttpDeadline{600};
constexpr std::chrono::milliseconds kLastLines{1000};

// After the lines of the log. If nobody reads them, the process ends all the same.
int fail(const std::string& name, const Error& error, OwnRuntime& runtime) {
  pollfd reader{STDERR_FILENO, POLLOUT, 0};
  if (runtime.json_log().flush(kLastLines) && ::poll(&reader, 1, 0) == 1)
    std::cerr << name << ": " << error.message << '\n';
  return 1;
}

}  // namespace

int run(const RunOptions& options, const StartDaemon& start_daemon) {
  const std::string& name = options.name;
  EndSignal signal;
  raise_descriptor_limit();
  // Issuing and credential plugins may wait: on threads of their own.
  OwnRuntime runtime({.threads = std::max(2U, std::thread::hardware_concurrency()),
                      .blocking_threads = 4,
                      .blocking_name = "certificates and credentials",
                      .least = options.least});
  host::Start start(runtime, [&signal](auto pause) { return signal.wait_for(pause); });
  auto health = host::Health::start({.address = options.http_address,
                                     .runtime = runtime,
                                     .start = start,
                                     .version = kVersion,
                                     .commit = kCommit});
  if (!health.ok()) return fail(name, health.error(), runtime);
  start.set_http_address((*health)->address());
  // Nothing is served yet that an end at once would break, and an attempt may take long.
  signal.exit_soon([&] {
    runtime.log.info(name + " stopped while it started");
    runtime.json_log().flush(kLastLines);
  });
  auto daemon = start_daemon(runtime, start);
  signal.exit_soon(nullptr);
  if (!daemon.ok() && signal.wait_for({})) {
    runtime.log.info(name + " stopped while it started");
    return 0;
  }
  if (!daemon.ok()) return fail(name, daemon.error(), runtime);
  Subscription followed = (*health)->follow(**daemon);
  if (runtime.log.enabled(LogLevel::kInfo)) {
    std::vector<LogField> facts{{"version", kVersion}, {"commit", kCommit}};
    for (auto& [key, value] : (*daemon)->facts()) facts.push_back({key, std::move(value)});
    facts.push_back({"http_address", (*health)->address().str()});
    runtime.log.write(LogLevel::kInfo, name + " started", facts);
  }
  runtime.log.info("shutting down; another signal ends it at once", {{"signal", signal.wait()}});
  (*daemon)->shutdown(kShutdownDeadline);
  report(runtime.log, (*health)->stop(kHttpDeadline));
  followed.reset();
  *daemon = nullptr;
  runtime.log.info(name + " stopped");
  return 0;
}

void report(LogSink& log, const Status& ended) {
  if (!ended.ok()) log.warning("shutting down", {{"cause", ended.error().message}});
}

}  // namespace osm::daemon
