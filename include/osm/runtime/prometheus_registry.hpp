// Metrics in memory, exposed in Prometheus' text format 0.0.4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::net {

// The first use of a name decides its kind and HELP. The registry drops a use as another kind, an
// invalid name, a decrement of a counter, and a label set beyond the limit of its name, so that a
// mistake cannot exhaust the memory. osm_metrics_dropped_total{reason} counts the drops.
class OSM_API PrometheusRegistry final : public MetricsSink {
 public:
  static constexpr std::array kBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                       0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};

  explicit PrometheusRegistry(std::size_t max_series_per_name = 1000)
      : max_series_(max_series_per_name) {}

  void record(const MetricDescriptor& metric, MetricLabels labels, double value) override;

  // Everything, ordered by name and labels. Thread: any. Blocking: briefly.
  std::string expose() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Series {
    double value = 0;  // for a histogram: the sum
    std::uint64_t count = 0;
    std::array<std::uint64_t, kBuckets.size()> buckets{};  // not cumulative
  };
  struct Family {
    MetricKind kind;
    std::string help;
    std::map<std::string, Series, std::less<>> series;  // by exposed labels
  };

  // Null when the value is dropped. Precondition: mutex held.
  Series* find(const MetricDescriptor& metric, MetricLabels labels);
  Family& family_of(const MetricDescriptor& metric);
  void drop(std::string_view reason);

  const std::size_t max_series_;
  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace osm::inline v1::net
