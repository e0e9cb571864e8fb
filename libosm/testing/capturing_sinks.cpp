#include "osm/testing/capturing_sinks.hpp"

#include "base/log_level.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::testing {

std::string LogLine::text() const {
  std::string out(log_level_text(level));
  out += ": " + message;
  for (const auto& [key, value] : fields) out += ' ' + key + '=' + value;
  return out;
}

void CapturingLog::write(LogLevel level, std::string_view message,
                         std::span<const LogField> fields) {
  LogLine line{level, std::string(message), {}};
  for (const LogField& field : fields) line.fields[std::string(field.key)] = field.value;
  std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

std::vector<LogLine> CapturingLog::lines() const {
  std::lock_guard lock(mutex_);
  return lines_;
}

std::vector<LogLine> CapturingLog::lines_with(std::string_view part) const {
  std::vector<LogLine> found;
  std::lock_guard lock(mutex_);
  for (const LogLine& line : lines_)
    if (line.text().find(part) != std::string::npos) found.push_back(line);
  return found;
}

std::string CapturingLog::all_text() const {
  std::string text;
  std::lock_guard lock(mutex_);
  for (const LogLine& line : lines_) text += line.text() + '\n';
  return text;
}

void CapturingLog::clear() {
  std::lock_guard lock(mutex_);
  lines_.clear();
}

CapturingMetrics::Series CapturingMetrics::series(std::string_view name, MetricLabels labels) {
  Series key{std::string(name), {}};
  for (const auto& [label, value] : labels) key.second[std::string(label)] = std::string(value);
  return key;
}

void CapturingMetrics::record(const MetricDescriptor& metric, MetricLabels labels, double value) {
  const Series key = series(metric.name, labels);
  std::lock_guard lock(mutex_);
  if (metric.kind == MetricKind::kHistogram) return observations_[key].push_back(value);
  double& kept = values_[key];
  kept = metric.kind == MetricKind::kCounter ? kept + value : value;
}

double CapturingMetrics::value(std::string_view name, BracedLabels labels) const {
  std::lock_guard lock(mutex_);
  const double* value = find_in(values_, series(name, labels));
  return value ? *value : 0;
}

double CapturingMetrics::sum(std::string_view name) const {
  double total = 0;
  std::lock_guard lock(mutex_);
  for (const auto& [key, value] : values_)
    if (key.first == name) total += value;
  return total;
}

std::vector<double> CapturingMetrics::observations(std::string_view name,
                                                   BracedLabels labels) const {
  std::lock_guard lock(mutex_);
  const auto* values = find_in(observations_, series(name, labels));
  return values ? *values : std::vector<double>{};
}

bool CapturingMetrics::has(std::string_view name, BracedLabels labels) const {
  std::lock_guard lock(mutex_);
  const Series key = series(name, labels);
  return values_.contains(key) || observations_.contains(key);
}

}  // namespace osm::inline v1::testing
