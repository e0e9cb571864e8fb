// Sinks that keep nothing: a process that fuzzes for hours must not remember every line.
#pragma once

#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::fuzz {

// Takes every line, so that lines are put together, and drops it.
class QuietLog final : public LogSink {
 public:
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view, std::span<const LogField>) override {}
};

class QuietMetrics final : public MetricsSink {
 public:
  void record(const MetricDescriptor&, MetricLabels, double) override {}
};

}  // namespace osm::fuzz
