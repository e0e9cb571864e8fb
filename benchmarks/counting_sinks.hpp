// Sinks of a server under measurement: sums and newest values, nothing that grows with time.
#pragma once

#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::bench {

class CountingMetrics final : public MetricsSink {
 public:
  void record(const MetricDescriptor& metric, MetricLabels labels, double value) override {
    if (metric.kind == MetricKind::kHistogram) return;
    std::lock_guard lock(mutex_);
    double& kept = values_[series(metric.name, labels)];
    kept = metric.kind == MetricKind::kCounter ? kept + value : value;
  }

  std::map<std::string, double> values() const {
    std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  // "name" or "name{label=value,...}"
  static std::string series(std::string_view name, MetricLabels labels) {
    std::string text(name);
    const char* before = "{";
    for (const auto& [label, value] : labels) {
      text.append(before).append(label).append("=").append(value);
      before = ",";
    }
    if (labels.size() > 0) text += '}';
    return text;
  }

  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

// Shows warnings and errors. Other lines are dropped, because writing them would be measured too.
class WarningLog final : public LogSink {
 public:
  bool enabled(LogLevel level) const override { return level >= LogLevel::kWarning; }
  void write(LogLevel, std::string_view message, std::span<const LogField> fields) override {
    std::lock_guard lock(mutex_);
    std::cerr << message;
    for (const LogField& field : fields) std::cerr << ' ' << field.key << '=' << field.value;
    std::cerr << '\n';
  }

 private:
  std::mutex mutex_;
};

}  // namespace osm::bench
