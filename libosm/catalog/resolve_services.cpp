#include "catalog/resolve_services.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/maps.hpp"
#include "model/claims.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::catalog {
namespace {

// True if the endpoint serves the port. An endpoint without a port name serves the service's only
// port.
bool serves(const Endpoint& endpoint, const ServicePort& port, const Service& service) {
  return endpoint.service_port == port.name ||
         (endpoint.service_port.empty() && service.ports.size() == 1);
}

// The lowest number that the endpoints give a named port; 0 if there is none. The number is part of
// the cluster's name, so a number that no other port of the service has `taken` is preferred: ports
// share a cluster only if their numbers agree on all endpoints.
Port resolve_target(const ServicePort& port, const Service& service,
                    const endpoint::MergedService* endpoints, const std::set<Port>& taken) {
  std::set<Port> candidates;
  if (endpoints)
    for (const Endpoint& endpoint : endpoints->endpoints)
      if (serves(endpoint, port, service)) candidates.insert(endpoint.port);
  for (Port candidate : candidates)
    if (!taken.contains(candidate)) return candidate;
  return candidates.empty() ? Port{} : *candidates.begin();
}

// `resolved` has the order of the service's ports.
void resolve_named_targets(const Service& service, const endpoint::MergedService* endpoints,
                           std::vector<MeshService>& resolved) {
  std::set<Port> taken;
  for (const ServicePort& port : service.ports)
    if (const Port* number = std::get_if<Port>(&port.target_port)) taken.insert(*number);
  for (std::size_t i = 0; i < service.ports.size(); ++i) {
    if (!std::holds_alternative<std::string>(service.ports[i].target_port)) continue;
    resolved[i].target_port = resolve_target(service.ports[i], service, endpoints, taken);
    taken.insert(resolved[i].target_port);
  }
}

// Addresses where endpoints of the port have other numbers than `target`, with all their numbers.
std::map<std::string, std::vector<Port>> addresses_elsewhere(
    const ServicePort& port, Port target, const Service& service,
    const endpoint::MergedService& endpoints) {
  std::map<std::string, std::vector<Port>> out;
  const auto usual = [&](const Endpoint& endpoint) {
    return endpoint.port == target || !serves(endpoint, port, service);
  };
  if (std::all_of(endpoints.endpoints.begin(), endpoints.endpoints.end(), usual)) return out;
  std::map<std::string, std::set<Port>> numbers;
  for (const Endpoint& endpoint : endpoints.endpoints)
    if (serves(endpoint, port, service)) numbers[endpoint.address].insert(endpoint.port);
  for (const auto& [address, there] : numbers)
    if (there != std::set{target}) out[address].assign(there.begin(), there.end());
  return out;
}

Problem problem_of_split(ErrorCode code, const smi::TrafficSplit& split, std::string field,
                         std::string cause) {
  return {.code = code,
          .object = {kinds::kTrafficSplit, split.name.ns, split.name.name},
          .path = {},
          .field = std::move(field),
          .cause = std::move(cause)};
}

// The existing backends of `split`; weights of equal ones are added.
std::vector<WeightedCluster> existing_backends(const smi::TrafficSplit& split,
                                               const ServiceDrafts& drafts) {
  std::vector<WeightedCluster> kept;
  for (const smi::SplitBackend& backend : split.backends) {
    const ServiceName name{split.name.ns, backend.service};
    if (!drafts.contains(name)) continue;
    const auto same = std::find_if(kept.begin(), kept.end(),
                                   [&](const WeightedCluster& c) { return c.service == name; });
    if (same == kept.end()) {
      kept.push_back({.service = name, .weight = backend.weight});
    } else {
      const std::int64_t sum = std::int64_t{same->weight} + backend.weight;
      same->weight = static_cast<int>(std::min<std::int64_t>(sum, std::numeric_limits<int>::max()));
    }
  }
  return kept;
}

struct ResolvedSplit {
  ObjectKey object;
  std::vector<WeightedCluster> backends;
};

std::map<ServiceName, ResolvedSplit> resolve_splits(const Table<smi::TrafficSplit>& splits,
                                                    const ServiceDrafts& drafts,
                                                    std::vector<Problem>& problems) {
  model::Owners owners;
  std::map<ServiceName, ResolvedSplit> out;
  for (const auto& split : splits) {
    if (!drafts.contains(split->service)) continue;
    const ObjectKey key = model::key_of(*split);
    if (!owners.take(key, model::links_of(*split).claims.front(), problems)) continue;
    auto backends = existing_backends(*split, drafts);
    const auto weighs = [](const auto& backend) { return backend.weight > 0; };
    if (std::any_of(split->backends.begin(), split->backends.end(), weighs) &&
        std::none_of(backends.begin(), backends.end(), weighs))
      problems.push_back(problem_of_split(
          ErrorCode::kInvalidWeights, *split, "spec.backends",
          "no Service with a weight above 0 exists: requests get 503 and TCP connections are "
          "closed; create the missing Services, or delete the split"));
    out[split->service] = {key, std::move(backends)};
  }
  return out;
}

// First claimant of each (address, port) of the mesh.
using PortOwners = std::map<std::pair<std::string, Port>, const ServiceName*>;

Problem taken(const ServiceName& service, std::string field, const std::string& address, Port port,
              const ServiceName& owner, std::string consequence) {
  return {.code = ErrorCode::kConflictingAddress,
          .object = {kinds::kService, service.ns, service.name},
          .path = {},
          .field = std::move(field),
          .cause = address + ':' + std::to_string(number(port)) + " already belongs to Service " +
                   owner.str() + "; " + std::move(consequence)};
}

void settle_cluster_ip(model::ServiceEntry& service, PortOwners& owners,
                       std::vector<Problem>& problems) {
  if (service.cluster_ip.empty()) return;
  std::erase_if(service.ports, [&](const MeshService& port) {
    const auto [owner, first] = owners.try_emplace({service.cluster_ip, port.port}, &service.name);
    if (first) return false;
    problems.push_back(taken(service.name, "spec.clusterIP", service.cluster_ip, port.port,
                             *owner->second,
                             "this port is left out: give the Service a cluster IP of its own"));
    service.named_targets.erase(port.port_name);
    return true;
  });
}

void settle_headless(model::ServiceEntry& service, PortOwners& owners,
                     std::vector<Problem>& problems) {
  std::erase_if(service.addresses, [&](const std::string& address) {
    for (const MeshService& port : service.ports) {
      const auto* owner = find_in(owners, std::pair(address, port.port));
      if (!owner) continue;
      problems.push_back(taken(service.name, "spec.selector", address, port.port, **owner,
                               "clients cannot reach this headless Service at that address: use "
                               "another port, or a cluster IP"));
      return true;
    }
    for (const MeshService& port : service.ports)
      owners.try_emplace({address, port.port}, &service.name);
    return false;
  });
}

// Precondition: the target ports of `entry` are resolved.
void set_other_targets(const Service& service, const endpoint::MergedService& endpoints,
                       model::ServiceEntry& entry) {
  for (const ServicePort& port : service.ports) {
    const auto resolved =
        std::find_if(entry.ports.begin(), entry.ports.end(), [&](const MeshService& candidate) {
          return candidate.port_name == port.name && candidate.port == port.port;
        });
    auto elsewhere = addresses_elsewhere(port, resolved->target_port, service, endpoints);
    if (!elsewhere.empty()) entry.other_targets.emplace(port.name, std::move(elsewhere));
  }
}

}  // namespace

model::ServiceEntry resolve_service(const Service& service,
                                    const endpoint::MergedService* endpoints) {
  model::ServiceEntry out;
  out.name = service.name;
  out.origin.object = {kinds::kService, service.name.ns, service.name.name};
  out.headless = service.headless;
  out.http_paths = service.http_paths;
  out.header_names = service.header_names;
  if (!service.headless) out.cluster_ip = service.cluster_ip;
  for (const ServicePort& port : service.ports) {
    const Port* const number = std::get_if<Port>(&port.target_port);
    out.ports.push_back({.name = service.name,
                         .port_name = port.name,
                         .port = port.port,
                         .target_port = number ? *number : Port{},
                         .protocol = port.protocol});
    if (!number) out.named_targets.emplace(port.name, std::get<std::string>(port.target_port));
  }
  resolve_named_targets(service, endpoints, out.ports);
  std::sort(out.ports.begin(), out.ports.end(), [](const MeshService& a, const MeshService& b) {
    return std::tie(a.port, a.port_name) < std::tie(b.port, b.port_name);
  });
  out.outside = service.selector.empty();
  if (!endpoints) return out;
  out.identities = endpoints->identities();
  out.outside =
      endpoints->endpoints.empty() && (endpoints->served_outside || service.selector.empty());
  out.idle =
      endpoints->endpoints.empty() && !endpoints->served_outside && !service.selector.empty();
  if (service.headless) {
    // Unhealthy addresses stay. A client that dials one means that pod (members of a cluster find
    // each other before they are ready), and a flapping health check does not change listeners.
    std::set<std::string> addresses;
    for (const Endpoint& endpoint : endpoints->endpoints) addresses.insert(endpoint.address);
    out.addresses.assign(addresses.begin(), addresses.end());
  }
  set_other_targets(service, *endpoints, out);
  return out;
}

model::ServiceEndpoints resolve_endpoints(const endpoint::MergedService& endpoints) {
  return {.service = endpoints.name, .endpoints = endpoints.healthy_endpoints()};
}

void name_providers(model::ServiceEndpoints& endpoints, const endpoint::MergedService& merged,
                    const model::ServiceEndpoints* known) {
  const auto known_provider = [&](const Endpoint& one) {
    const auto at = std::lower_bound(known->endpoints.begin(), known->endpoints.end(), one);
    if (at == known->endpoints.end() || *at != one) return std::string();
    return known->providers.of_each[static_cast<std::size_t>(at - known->endpoints.begin())];
  };
  std::vector<std::string>& names = endpoints.providers.of_each;
  names.clear();
  for (const Endpoint& one : endpoints.endpoints) {
    names.push_back(merged.provider_of(one));
    if (names.back().empty() && known) names.back() = known_provider(one);
  }
}

std::vector<Problem> check_apexes(const Table<model::ServiceEntry>& services,
                                  const Table<smi::TrafficSplit>& splits, bool permissive) {
  std::vector<Problem> problems;
  for (const auto& split : splits) {
    const auto apex = services.find(split->service);
    if (!apex || !apex->split) continue;
    if (!permissive && apex->identities.empty() && !apex->idle)
      problems.push_back(problem_of_split(
          ErrorCode::kDanglingReference, *split, "spec.service",
          "no workload of the mesh is behind Service " + apex->name.str() +
              ", so no TrafficTarget lets a client call it: give it a selector that matches the "
              "workloads of its backends"));
    const bool tcp = std::any_of(apex->ports.begin(), apex->ports.end(),
                                 [](const MeshService& port) { return !is_http(port.protocol); });
    if (apex->headless && tcp)
      problems.push_back(problem_of_split(
          ErrorCode::kUnusedField, *split, "spec.service",
          "Service " + apex->name.str() +
              " is headless: the weights have no effect on its TCP ports, whose connections reach "
              "the workload that the client dials; give it a cluster IP"));
  }
  return problems;
}

std::vector<Problem> check_outside(const Table<model::ServiceEntry>& services, bool egress) {
  std::vector<Problem> problems;
  if (egress) return problems;
  for (const auto& service : services)
    if (service->outside && !service->split)
      problems.push_back({.code = ErrorCode::kDanglingReference,
                          .object = {kinds::kService, service->name.ns, service->name.name},
                          .path = {},
                          .field = "spec.selector",
                          .cause =
                              "no workload of the mesh is behind it, and egress is off, so its "
                              "clients are refused: give its workloads sidecars, or set "
                              "MeshConfig's spec.traffic.enableEgress"});
  return problems;
}

SettledServices settle_services(const ServiceDrafts& drafts, const Table<smi::TrafficSplit>& splits,
                                const ServiceAges& ages) {
  SettledServices out;
  auto split_of = resolve_splits(splits, drafts, out.problems);
  std::map<ServiceName, std::vector<ServiceName>> apexes_of;
  for (const auto& [apex, split] : split_of)
    for (const WeightedCluster& backend : split.backends)
      if (backend.service != apex) apexes_of[backend.service].push_back(apex);

  out.services.reserve(drafts.size());  // `by_age` has pointers
  std::vector<std::pair<Created, model::ServiceEntry*>> by_age;
  for (const auto& [name, draft] : drafts) {
    model::ServiceEntry& service = out.services.emplace_back(*draft);
    const Created* created = find_in(ages, name);
    by_age.emplace_back(created ? *created : Created(), &service);
    if (const auto split = split_of.find(name); split != split_of.end()) {
      service.split = std::move(split->second.backends);
      service.split_origin = {std::move(split->second.object), "spec.backends"};
    }
    if (const auto apexes = apexes_of.find(name); apexes != apexes_of.end())
      service.apexes = std::move(apexes->second);
  }
  std::stable_sort(by_age.begin(), by_age.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Cluster IPs claim before addresses of machines: those are free text of the machine's author.
  PortOwners owners;
  for (const auto& [created, service] : by_age)
    if (!service->headless) settle_cluster_ip(*service, owners, out.problems);
  for (const auto& [created, service] : by_age)
    if (service->headless) settle_headless(*service, owners, out.problems);
  for (model::ServiceEntry& service : out.services)
    service.origin.in_force = !service.ports.empty();
  return out;
}

model::ServiceEntry* find_service(std::vector<model::ServiceEntry>& services,
                                  const ServiceName& name) {
  const auto at = std::lower_bound(
      services.begin(), services.end(), name,
      [](const model::ServiceEntry& entry, const ServiceName& key) { return entry.name < key; });
  return at != services.end() && at->name == name ? &*at : nullptr;
}

}  // namespace osm::inline v1::catalog
