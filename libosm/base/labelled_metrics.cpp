#include "osm/runtime/labelled_metrics.hpp"

namespace osm::inline v1 {

LabelledMetrics::LabelledMetrics(MetricsSink& sink, BracedLabels labels)
    : sink_(sink), labels_(labels.begin(), labels.end()) {}

void LabelledMetrics::add(std::string_view counter, MetricLabels labels, double delta) {
  sink_.add(counter, with(labels), delta);
}

void LabelledMetrics::set(std::string_view gauge, MetricLabels labels, double value) {
  sink_.set(gauge, with(labels), value);
}

void LabelledMetrics::observe(std::string_view histogram, MetricLabels labels, double value) {
  sink_.observe(histogram, with(labels), value);
}

std::vector<MetricLabel> LabelledMetrics::with(MetricLabels labels) const {
  std::vector<MetricLabel> all(labels_.begin(), labels_.end());
  all.insert(all.end(), labels.begin(), labels.end());
  return all;
}

}  // namespace osm::inline v1
