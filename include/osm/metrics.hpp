// Metrics for the host's own system. Names follow Prometheus: they start with "osm_", counters end
// in "_total" or "_count", times are in seconds. Label sets are bounded: no proxy UUIDs, no
// addresses.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

using MetricLabel = std::pair<std::string_view, std::string_view>;  // name, value
using MetricLabels = std::span<const MetricLabel>;

// Receives counters, gauges and histograms.
class OSM_API MetricsSink {
 public:
  virtual ~MetricsSink() = default;

  // All three record one value. Thread: any, concurrently. Blocking: no.
  // Lifetime: arguments live for the call only.
  virtual void add(std::string_view counter, MetricLabels labels, double delta) = 0;
  virtual void set(std::string_view gauge, MetricLabels labels, double value) = 0;
  virtual void observe(std::string_view histogram, MetricLabels labels, double value) = 0;

  using BracedLabels = std::initializer_list<MetricLabel>;
  // All three take labels in braces: metrics.add("osm_x_total", {{"kind", kind}}, 1).
  // Implementations that are called by their own type name them: using MetricsSink::add.
  void add(std::string_view counter, BracedLabels labels, double delta) {
    add(counter, MetricLabels(labels), delta);
  }
  void set(std::string_view gauge, BracedLabels labels, double value) {
    set(gauge, MetricLabels(labels), value);
  }
  void observe(std::string_view histogram, BracedLabels labels, double value) {
    observe(histogram, MetricLabels(labels), value);
  }
};

}  // namespace osm::inline v1
