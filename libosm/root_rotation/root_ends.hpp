// Ends of the mesh's roots, for people: in statuses, as problems and as a metric.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/metrics.hpp"
#include "root_rotation/next_step.hpp"

namespace osm::inline v1::root_rotation {

// Fills in the fingerprint and the end of a trusted root. `issuer`: the root's, which may have
// intermediates that end first; null: not known.
void fill_in_end(RootStatus& status, const RootRecord& root, const certificate::Issuer* issuer);

// The gauge osm_root_not_after_seconds. Thread: one at a time.
class RootEndMetric {
 public:
  explicit RootEndMetric(MetricsSink& metrics) : metrics_(metrics) {}

  void set(const std::vector<RootStatus>& roots);

 private:
  MetricsSink& metrics_;
  std::set<std::string> shown_;
};

}  // namespace osm::inline v1::root_rotation
