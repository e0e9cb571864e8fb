#include "osm/runtime/prometheus_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace osm::inline v1::net {
namespace {

constexpr Counter kMetricsDropped{
    "osm_metrics_dropped_total", "Values that could not be kept, by reason", {"reason"}};

bool valid_name(std::string_view name, bool colon) {
  if (name.empty() || (name.front() >= '0' && name.front() <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colon && c == ':');
  });
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && quotes) {
      out += "\\\"";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\xef\xbf\xbd";  // the format has no escape for it, and terminals interpret it
    } else {
      out.push_back(c);
    }
  }
}

// Label text ordered by name: a="1",b="2". nullopt: a name is invalid, reserved or duplicate.
std::optional<std::string> label_text(MetricLabels labels) {
  std::vector<std::pair<std::string_view, std::string_view>> ordered(labels.begin(), labels.end());
  std::sort(ordered.begin(), ordered.end());
  std::string text;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const auto& [name, value] = ordered[i];
    if (!valid_name(name, false) || name.starts_with("__") || name == "le") return std::nullopt;
    if (i > 0 && ordered[i - 1].first == name) return std::nullopt;
    if (i > 0) text.push_back(',');
    text += name;
    text += "=\"";
    append_escaped(text, value, true);
    text.push_back('"');
  }
  return text;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

void append_sample(std::string& out, std::string_view name, std::string_view suffix,
                   std::string_view labels, std::string_view value) {
  out += name;
  out += suffix;
  if (!labels.empty()) (out += '{').append(labels) += '}';
  (out += ' ').append(value) += '\n';
}

}  // namespace

void PrometheusRegistry::record(const MetricDescriptor& metric, MetricLabels labels, double value) {
  std::lock_guard lock(mutex_);
  if (metric.kind == MetricKind::kCounter && !(value >= 0)) return drop("negative");  // NaN too
  if (metric.kind == MetricKind::kHistogram && std::isnan(value)) return drop("not_a_number");
  Series* series = find(metric, labels);
  if (!series) return;
  series->value = metric.kind == MetricKind::kGauge ? value : series->value + value;
  if (metric.kind != MetricKind::kHistogram) return;
  ++series->count;
  const auto bucket = std::lower_bound(kBuckets.begin(), kBuckets.end(), value);
  if (bucket != kBuckets.end())
    ++series->buckets[static_cast<std::size_t>(bucket - kBuckets.begin())];
}

PrometheusRegistry::Series* PrometheusRegistry::find(const MetricDescriptor& metric,
                                                     MetricLabels labels) {
  const auto text = label_text(labels);
  if (!text || !valid_name(metric.name, true)) return drop("invalid_name"), nullptr;
  Family& family = family_of(metric);
  if (family.kind != metric.kind) return drop("other_kind"), nullptr;
  auto& series = family.series;
  if (const auto at = series.find(*text); at != series.end()) return &at->second;
  if (series.size() >= max_series_) return drop("too_many_series"), nullptr;
  return &series[*text];
}

PrometheusRegistry::Family& PrometheusRegistry::family_of(const MetricDescriptor& metric) {
  const auto at = families_.find(metric.name);
  if (at != families_.end()) return at->second;
  return families_.emplace(metric.name, Family{metric.kind, std::string(metric.help), {}})
      .first->second;
}

void PrometheusRegistry::drop(std::string_view reason) {
  family_of(kMetricsDropped).series[fmt::format("reason=\"{}\"", reason)].value += 1;
}

std::string PrometheusRegistry::expose() const {
  static constexpr std::string_view kKinds[] = {"counter", "gauge", "histogram"};
  std::string out;
  std::lock_guard lock(mutex_);
  for (const auto& [name, family] : families_) {
    if (!family.help.empty()) {
      (out += "# HELP ").append(name) += ' ';
      append_escaped(out, family.help, false);
      out.push_back('\n');
    }
    out += fmt::format("# TYPE {} {}\n", name, kKinds[static_cast<int>(family.kind)]);
    for (const auto& [labels, series] : family.series) {
      if (family.kind != MetricKind::kHistogram) {
        append_sample(out, name, "", labels, number_text(series.value));
        continue;
      }
      const std::string prefix = labels.empty() ? "" : labels + ',';
      std::uint64_t cumulative = 0;
      for (std::size_t i = 0; i < kBuckets.size(); ++i) {
        cumulative += series.buckets[i];
        append_sample(out, name, "_bucket", prefix + "le=\"" + number_text(kBuckets[i]) + '"',
                      std::to_string(cumulative));
      }
      append_sample(out, name, "_bucket", prefix + "le=\"+Inf\"", std::to_string(series.count));
      append_sample(out, name, "_sum", labels, number_text(series.value));
      append_sample(out, name, "_count", labels, std::to_string(series.count));
    }
  }
  return out;
}

}  // namespace osm::inline v1::net
