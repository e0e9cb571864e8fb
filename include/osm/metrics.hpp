// Metrics for the host's own system. Names follow Prometheus: they start with "osm_", counters end
// in "_total" or "_count", times are in seconds. Label sets are bounded: no proxy UUIDs, no
// addresses.
#pragma once

#include <array>
#include <chrono>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Kinds of metrics, as Prometheus has them.
enum class MetricKind { kCounter, kGauge, kHistogram };

// Describes a metric. Each one is defined once, beside the code that records it, as a Counter, a
// Gauge or a Histogram.
struct MetricDescriptor {
  using LabelNames = std::array<std::string_view, 8>;

  std::string_view name;
  MetricKind kind;
  std::string_view help;  // one line for operators
  LabelNames labels{};    // unused ones are empty
};

// A descriptor whose type tells the kind:
//
//   constexpr Counter kCalls{"osm_calls_total", "Calls of the server, by code", {"code"}};
//   metrics.add(kCalls, {{"code", code}}, 1);
template <MetricKind kKind>
struct MetricOf : MetricDescriptor {
  // `text`: the help. `labelled`: names of labels.
  constexpr MetricOf(std::string_view called, std::string_view text, LabelNames labelled = {})
      : MetricDescriptor{called, kKind, text, labelled} {}
};
using Counter = MetricOf<MetricKind::kCounter>;
using Gauge = MetricOf<MetricKind::kGauge>;
using Histogram = MetricOf<MetricKind::kHistogram>;

using MetricLabel = std::pair<std::string_view, std::string_view>;  // name, value
using MetricLabels = std::span<const MetricLabel>;

// Receives counters, gauges and histograms.
class OSM_API MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // Adds `value` to a counter, sets a gauge to it, or takes it as one observation of a histogram.
  // `labels`: those of the descriptor, and others that a LabelledMetrics adds. Thread: any,
  // concurrently. Blocking: no. Lifetime: arguments live for the call only.
  virtual void record(const MetricDescriptor& metric, MetricLabels labels, double value) = 0;

  using BracedLabels = std::initializer_list<MetricLabel>;
  // All of these are record(), with labels in braces. Units: times are recorded in seconds.
  void add(const Counter& counter, BracedLabels labels, double delta) {
    record(counter, MetricLabels(labels), delta);
  }
  void set(const Gauge& gauge, BracedLabels labels, double value) {
    record(gauge, MetricLabels(labels), value);
  }
  void set(const Gauge& gauge, BracedLabels labels, std::chrono::duration<double> time) {
    record(gauge, MetricLabels(labels), time.count());
  }
  void observe(const Histogram& histogram, BracedLabels labels, double value) {
    record(histogram, MetricLabels(labels), value);
  }
  void observe(const Histogram& histogram, BracedLabels labels,
               std::chrono::duration<double> time) {
    record(histogram, MetricLabels(labels), time.count());
  }
};

}  // namespace osm::inline v1
