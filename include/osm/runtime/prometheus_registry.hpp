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

// The first use of a name decides its kind. The registry drops a use as another kind, an invalid
// name, a decrement of a counter, and a label set beyond the limit of its name, so that a mistake
// cannot exhaust the memory. osm_metrics_dropped_total{reason} counts the drops.
class OSM_API PrometheusRegistry final : public MetricsSink {
 public:
  static constexpr std::array kBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                       0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};

  explicit PrometheusRegistry(std::size_t max_series_per_name = 1000)
      : max_series_(max_series_per_name) {}

  // Sets HELP of a metric of the host, shown once it has a value. Ours have theirs. Thread: any.
  void describe(std::string_view name, std::string_view help);

  // The overloads for labels in braces.
  using MetricsSink::add;
  using MetricsSink::observe;
  using MetricsSink::set;

  void add(std::string_view counter, MetricLabels labels, double delta) override;
  void set(std::string_view gauge, MetricLabels labels, double value) override;
  void observe(std::string_view histogram, MetricLabels labels, double value) override;

  // Everything, ordered by name and labels. Thread: any. Blocking: briefly.
  std::string expose() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  enum class Kind { kCounter, kGauge, kHistogram };
  struct Series {
    double value = 0;  // for a histogram: the sum
    std::uint64_t count = 0;
    std::array<std::uint64_t, kBuckets.size()> buckets{};  // not cumulative
  };
  struct Family {
    Kind kind = Kind::kCounter;
    std::map<std::string, Series, std::less<>> series;  // by exposed labels
  };

  // Null when the value is dropped. Precondition: mutex held.
  Series* find(Kind kind, std::string_view name, MetricLabels labels);
  void drop(std::string_view reason);
  static void append_family(std::string& out, const std::string& name, const Family& family);

  const std::size_t max_series_;
  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::string, std::string, std::less<>> help_;
};

}  // namespace osm::inline v1::net
