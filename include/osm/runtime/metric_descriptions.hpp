// HELP of every metric of the library and its programs: docs/metrics.md explains them.
#pragma once

#include <span>
#include <string_view>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// What HELP says of a metric.
struct MetricDescription {
  std::string_view name;
  std::string_view help;
};

// All metrics, ordered by name, for hosts whose own system wants descriptions. PrometheusRegistry
// shows them. Thread: any. Blocking: no. Lifetime: the program's.
OSM_API std::span<const MetricDescription> metric_descriptions();

}  // namespace osm::inline v1
