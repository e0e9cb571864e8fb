#include "model/mesh_snapshot.hpp"

#include <algorithm>

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

const Upstream* find_upstream(const std::vector<Upstream>& upstreams, const ServiceName& service) {
  const auto at = std::lower_bound(
      upstreams.begin(), upstreams.end(), service,
      [](const Upstream& one, const ServiceName& name) { return one.service < name; });
  return at != upstreams.end() && at->service == service ? &*at : nullptr;
}

UpstreamList MeshSnapshot::upstreams_of(const ServiceIdentity& identity) const {
  static const UpstreamList kNone = std::make_shared<const std::vector<Upstream>>();
  if (config.proxy.permissive && !smi_upstreams)
    return permissive_upstreams ? permissive_upstreams : kNone;
  const auto policy = policies.find(identity);
  return policy ? policy->upstreams : kNone;
}

std::uint64_t MeshSnapshot::admits_of(const ServiceIdentity& identity) const {
  if (config.proxy.permissive) return 1;  // no policy has it
  const auto policy = policies.find(identity);
  return policy ? policy->admits : 0;
}

}  // namespace osm::inline v1::model
