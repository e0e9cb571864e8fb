// Log and metric sinks that record, so that tests can assert the view of operators.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::testing {

// One recorded line.
struct OSM_API LogLine {
  LogLevel level = LogLevel::kDebug;
  std::string message;
  std::map<std::string, std::string> fields;

  // "warning: message key=value key=value", for searches and failed assertions.
  std::string text() const;
};

// Keeps every line of every level. All calls: Thread: any. Blocking: no.
class OSM_API CapturingLog final : public LogSink {
 public:
  bool enabled(LogLevel) const override { return true; }
  using LogSink::write;
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) override;

  // Every line, in order.
  std::vector<LogLine> lines() const;
  // The lines whose text() contains `part`.
  std::vector<LogLine> lines_with(std::string_view part) const;
  // The number of lines whose text() contains `part`.
  std::size_t count(std::string_view part) const { return lines_with(part).size(); }
  // Every line, one per row; tests search it for secrets.
  std::string all_text() const;
  // Forgets all lines.
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<LogLine> lines_;
};

// Keeps the newest value of every series. All calls: Thread: any. Blocking: no.
class OSM_API CapturingMetrics final : public MetricsSink {
 public:
  void record(const MetricDescriptor& metric, MetricLabels labels, double value) override;

  // A counter's sum or a gauge's newest value; 0 if there is no such series. The order of labels
  // does not matter.
  double value(std::string_view name, BracedLabels labels = {}) const;
  // Sum of a counter or gauge over all its label sets.
  double sum(std::string_view name) const;
  // The values that a histogram received, in order.
  std::vector<double> observations(std::string_view name, BracedLabels labels = {}) const;
  // True if the series was ever written.
  bool has(std::string_view name, BracedLabels labels = {}) const;

 private:
  using Series = std::pair<std::string, std::map<std::string, std::string>>;
  static Series series(std::string_view name, MetricLabels labels);

  mutable std::mutex mutex_;
  std::map<Series, double> values_;
  std::map<Series, std::vector<double>> observations_;
};

}  // namespace osm::inline v1::testing
