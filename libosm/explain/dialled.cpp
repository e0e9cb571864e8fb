#include <algorithm>

#include "base/maps.hpp"
#include "explain/call.hpp"
#include "model/cluster_names.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::explain {
namespace {

std::optional<DialledService> at_cluster_ip(const ServiceEntryPtr& entry, Port port) {
  for (const MeshService& one : entry->ports)
    if (one.port == port) return DialledService{entry, one, {}};
  return std::nullopt;
}

// The port of a headless Service that a client means with `port` at `address`. By the Service's own
// number, or with `own` by that of the workload.
std::optional<DialledService> at_workload(const ServiceEntryPtr& entry, Port port,
                                          const std::string& address, bool own) {
  for (const MeshService& one : entry->ports) {
    const Port target = model::number_at(*entry, one, address);
    if (own ? target != port || one.target_port == Port{0} : one.port != port) continue;
    MeshService there = one;
    there.target_port = target;
    return DialledService{entry, std::move(there), {address}};
  }
  return std::nullopt;
}

bool has_address(const model::ServiceEntry& entry, const std::string& address) {
  return entry.headless
             ? std::binary_search(entry.addresses.begin(), entry.addresses.end(), address)
             : entry.cluster_ip == address;
}

// The first Service at the address that has the port, by the numbers of Services, then by those of
// workloads, as the chains of a sidecar's listener.
template <class Considers>
std::optional<DialledService> first_at(const ExplainedCall& call, const std::string& address,
                                       Considers considers) {
  for (const bool own : {false, true}) {
    for (const auto& entry : call.mesh.services) {
      if (!has_address(*entry, address) || !considers(*entry)) continue;
      auto found = entry->headless ? at_workload(entry, call.question.port, address, own)
                   : own           ? std::nullopt
                                   : at_cluster_ip(entry, call.question.port);
      if (found) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<DialledService> dialled_port(const ServiceEntryPtr& entry, Port port,
                                           const std::string& address) {
  if (!entry->headless) return at_cluster_ip(entry, port);
  std::optional<DialledService> out;
  for (const std::string& one : entry->addresses) {
    if (!address.empty() && one != address) continue;
    auto found = at_workload(entry, port, one, false);
    if (!found) found = at_workload(entry, port, one, true);
    if (!found) continue;
    if (!out) out = DialledService{entry, found->port, {}};
    out->addresses.push_back(one);
  }
  // Without workloads no address says which number is meant.
  return out || !entry->addresses.empty() ? out : at_cluster_ip(entry, port);
}

std::optional<DialledService> dialled_address(const ExplainedCall& call,
                                              const std::string& address) {
  auto found = first_at(call, address, [&](const model::ServiceEntry& entry) {
    return call.dialled(entry.name) != nullptr;
  });
  return found ? found : first_at(call, address, [](const model::ServiceEntry&) { return true; });
}

bool has_name(const ExplainedCall& call, const ServiceName& service, bool short_name,
              const std::string& host) {
  const auto names = model::host_names(service, short_name, call.mesh.config.proxy.cluster_domain);
  return std::find(names.begin(), names.end(), host) != names.end();
}

std::string request_name(std::string host, Port port) {
  const std::string suffix = ':' + std::to_string(number(port));
  const bool dot = host.ends_with('.');
  if (dot) host.pop_back();
  if (host.ends_with(suffix)) host.resize(host.size() - suffix.size());
  return normal_dns_name(dot ? host + '.' : host);  // Envoy takes one dot only
}

ServiceEntryPtr named_service(const ExplainedCall& call, const std::string& host) {
  const std::string name = normal_dns_name(host);
  for (const auto& entry : call.mesh.services)
    if (has_name(call, entry->name, entry->name.ns == call.source.ns, name)) return entry;
  return nullptr;
}

}  // namespace osm::inline v1::explain
