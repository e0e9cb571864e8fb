#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::model {

void Changes::merge(const Changes& later) {
  everything |= later.everything;
  services.insert(later.services.begin(), later.services.end());
  endpoints.insert(later.endpoints.begin(), later.endpoints.end());
  identities.insert(later.identities.begin(), later.identities.end());
  workloads.insert(later.workloads.begin(), later.workloads.end());
  telemetries.insert(later.telemetries.begin(), later.telemetries.end());
  objects.insert(later.objects.begin(), later.objects.end());
}

UpstreamList MeshSnapshot::upstreams_of(const ServiceIdentity& identity) const {
  static const UpstreamList kNone = std::make_shared<const std::vector<Upstream>>();
  if (config.proxy.permissive) return permissive_upstreams ? permissive_upstreams : kNone;
  const auto policy = policies.find(identity);
  return policy ? policy->upstreams : kNone;
}

}  // namespace osm::inline v1::model
