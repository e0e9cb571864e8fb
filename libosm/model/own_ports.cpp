#include "model/own_ports.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace osm::inline v1::model {
namespace {

std::optional<Port> target_port_on(const Workload& workload, const ServiceEntry& service,
                                   const MeshService& port) {
  const auto named = service.named_targets.find(port.port_name);
  if (named == service.named_targets.end()) {
    if (port.target_port == Port{}) return std::nullopt;
    return port.target_port;
  }
  const auto at = workload.ports.find(named->second);
  if (at == workload.ports.end()) return std::nullopt;
  return at->second;
}

bool claims_before(const MeshService& a, const MeshService& b) {
  return std::tie(a.target_port, a.port_name, a.name, a.port) <
         std::tie(b.target_port, b.port_name, b.name, b.port);
}

}  // namespace

bool can_share_port(Protocol a, Protocol b) { return is_http(a) == is_http(b); }

OwnPorts own_ports_of(const Table<ServiceEntry>& services, const Workload& workload) {
  std::vector<MeshService> claims;
  for (const ServiceName& name : workload.services) {
    const auto service = services.find(name);
    if (!service) continue;
    for (MeshService port : service->ports) {
      const auto target = target_port_on(workload, *service, port);
      if (!target) continue;
      port.target_port = *target;
      claims.push_back(std::move(port));
    }
  }
  std::sort(claims.begin(), claims.end(), claims_before);
  claims.erase(std::unique(claims.begin(), claims.end()), claims.end());

  OwnPorts own;
  const MeshService* first = nullptr;  // the first claim on the current target port
  for (const MeshService& claim : claims) {
    if (!first || first->target_port != claim.target_port) first = &claim;
    if (can_share_port(first->protocol, claim.protocol)) {
      own.ports.push_back(claim);
    } else {
      own.conflicts.push_back({.kept = *first, .left_out = claim});
    }
  }
  std::sort(own.ports.begin(), own.ports.end());
  std::sort(own.conflicts.begin(), own.conflicts.end());
  return own;
}

}  // namespace osm::inline v1::model
