// Labels that every metric of one mesh carries, so that two meshes in one process keep apart:
//
//   osm::LabelledMetrics metrics(own.metrics, {{"mesh", "east"}});
//   osm::Runtime runtime{own.executor, own.blocking, own.clock, own.rng, own.log, metrics};
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1 {

// Lifetime: the sink outlives it, and it outlives everything made with it.
class OSM_API LabelledMetrics final : public MetricsSink {
 public:
  // `labels` precede the labels of each metric, whose names must differ. "mesh" is free: no metric
  // of the library uses it.
  LabelledMetrics(MetricsSink& sink, BracedLabels labels);

  void record(const MetricDescriptor& metric, MetricLabels labels, double value) override;

 private:
  MetricsSink& sink_;
  const std::vector<std::pair<std::string, std::string>> labels_;
};

}  // namespace osm::inline v1
