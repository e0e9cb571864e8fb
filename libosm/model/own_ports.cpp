#include "model/own_ports.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/maps.hpp"

namespace osm::inline v1::model {
namespace {

// The numbers that endpoints at `address` give the port, if one is not its target port; null: none.
const std::vector<Port>* numbers_at(const ServiceEntry& service, const MeshService& port,
                                    const std::string& address) {
  const auto* elsewhere = find_in(service.other_targets, port.port_name);
  return elsewhere ? find_in(*elsewhere, address) : nullptr;
}

std::set<Port> target_ports_on(const Workload& workload, const ServiceEntry& service,
                               const MeshService& port) {
  std::set<Port> out;
  const auto* others = numbers_at(service, port, workload.address);
  if (others) out.insert(others->begin(), others->end());
  if (const auto* name = find_in(service.named_targets, port.port_name)) {
    if (const Port* number = find_in(workload.ports, *name)) out.insert(*number);
  } else if (!others && port.target_port != Port{}) {
    out.insert(port.target_port);
  }
  return out;
}

bool claims_before(const MeshService& a, const MeshService& b) {
  return std::tie(a.target_port, a.port_name, a.name, a.port) <
         std::tie(b.target_port, b.port_name, b.name, b.port);
}

}  // namespace

Port number_at(const ServiceEntry& service, const MeshService& port, const std::string& address) {
  const auto* numbers = numbers_at(service, port, address);
  if (!numbers || std::binary_search(numbers->begin(), numbers->end(), port.target_port))
    return port.target_port;
  return numbers->front();
}

bool can_share_port(Protocol a, Protocol b) { return is_http(a) == is_http(b); }

OwnPorts own_ports_of(const Table<ServiceEntry>& services, const Workload& workload) {
  std::vector<MeshService> claims;
  for (const ServiceName& name : workload.services) {
    const auto service = services.find(name);
    if (!service) continue;
    for (const MeshService& declared : service->ports) {
      MeshService port = declared;
      for (const Port target : target_ports_on(workload, *service, port)) {
        port.target_port = target;
        claims.push_back(port);
      }
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
