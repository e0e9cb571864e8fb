// Log lines as JSON objects, one per line, for machines and for `jq`.
#pragma once

#include <atomic>
#include <mutex>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/log.hpp"

namespace osm::inline v1::net {

// {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"...","key":"value"}
// Values with line breaks are escaped, and lines of several threads do not mix. If the descriptor
// does not accept a line within a second, the line is lost: logging never stops the mesh.
class OSM_API JsonLog final : public LogSink {
 public:
  // `fd` stays the caller's. Lines below `least` are dropped.
  JsonLog(int fd, LogLevel least, const Clock& clock) : fd_(fd), least_(least), clock_(clock) {}

  bool enabled(LogLevel level) const override {
    return level >= least_.load(std::memory_order_relaxed);
  }
  // Lines below `least` are dropped from now on. Thread: any. Blocking: no.
  void set_least(LogLevel least) { least_.store(least, std::memory_order_relaxed); }
  using LogSink::write;
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) override;

 private:
  void write_line(std::string_view line);

  const int fd_;
  std::atomic<LogLevel> least_;
  const Clock& clock_;
  std::mutex mutex_;
};

}  // namespace osm::inline v1::net
