#include "osm/runtime/labelled_metrics.hpp"

namespace osm::inline v1 {

LabelledMetrics::LabelledMetrics(MetricsSink& sink, BracedLabels labels)
    : sink_(sink), labels_(labels.begin(), labels.end()) {}

void LabelledMetrics::record(const MetricDescriptor& metric, MetricLabels labels, double value) {
  std::vector<MetricLabel> all(labels_.begin(), labels_.end());
  all.insert(all.end(), labels.begin(), labels.end());
  sink_.record(metric, all, value);
}

}  // namespace osm::inline v1
