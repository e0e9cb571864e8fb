// Log lines as JSON objects, one per line, for machines and for `jq`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::net {

// {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"...","key":"value"}
// Values with line breaks are escaped, and lines of several threads do not mix.
//
// A thread of the log's own writes the lines, so that a reader that stands still and a full disk
// stop nobody who logs. Lines wait for it, in order, up to a bound. A line beyond the bound, and
// one that cannot be written, is dropped and counted. When the lines before it are written, the log
// says how many were dropped.
class OSM_API JsonLog final : public LogSink {
 public:
  // Bound of the bytes that wait to be written.
  static constexpr std::size_t kMaxWaitingBytes = std::size_t{1} << 20;

  // Starts the thread, which takes no signals. `fd` stays the caller's, who may close it: the log
  // writes to a duplicate, which a program that this process starts does not inherit. Lines below
  // `least` are dropped and not counted. `metrics` receives osm_log_lines_dropped_total; null:
  // nobody does. Lifetime: `clock` and `metrics` outlive the log. Blocking: no.
  JsonLog(int fd, LogLevel least, const Clock& clock, MetricsSink* metrics = nullptr);
  // Writes the lines that wait, for a second at most. Blocking: until they are written.
  ~JsonLog() override;
  JsonLog(const JsonLog&) = delete;
  JsonLog& operator=(const JsonLog&) = delete;

  bool enabled(LogLevel level) const override {
    return level >= least_.load(std::memory_order_relaxed);
  }
  // Lines below `least` are dropped from now on. Thread: any. Blocking: no.
  void set_least(LogLevel least) { least_.store(least, std::memory_order_relaxed); }
  using LogSink::write;
  // Blocking: no. Otherwise as LogSink::write().
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) override;

  // Waits until no line waits. Result: true if so; false if `deadline` passed before. Thread: any.
  // Blocking: until no line waits.
  bool flush(std::chrono::milliseconds deadline);

 private:
  class Writer;
  std::atomic<LogLevel> least_;
  const Clock& clock_;
  const std::shared_ptr<Writer> writer_;  // its thread may outlive the log
};

}  // namespace osm::inline v1::net
