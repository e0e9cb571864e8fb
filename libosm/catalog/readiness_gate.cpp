#include "catalog/readiness_gate.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/maps.hpp"
#include "model/own_ports.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::Readiness;

bool by_place(const Endpoint& a, const Endpoint& b) {
  return std::tie(a.address, a.port) < std::tie(b.address, b.port);
}

// A workload at one port of a Service, whatever its own port is.
using Member = std::tuple<std::string_view, const ServiceIdentity&, std::string_view>;
Member member_of(const Endpoint& one) { return {one.address, one.identity, one.service_port}; }

std::set<std::string_view> service_ports(const std::vector<Endpoint>& endpoints) {
  std::set<std::string_view> ports;
  for (const Endpoint& one : endpoints) ports.insert(one.service_port);
  return ports;
}

}  // namespace

std::set<ServiceName> ReadinessGate::begin(const model::MeshSnapshot& next, bool first) {
  first_ = first;
  services_ = next.services;
  workloads_ = next.workloads;
  follow(next.changes.workloads);
  return due();
}

void ReadinessGate::follow(const std::set<model::ProxyKey>& changed) {
  for (const model::ProxyKey& proxy : changed) {
    if (const std::string* before = find_in(addresses_, proxy))
      remove_member(by_address_, *before, proxy);
    const auto workload = workloads_.find(proxy);
    put_or_erase(addresses_, proxy,
                 workload ? std::optional(workload->workload.address) : std::nullopt);
    if (workload) by_address_[workload->workload.address].insert(proxy);
  }
}

// Several workloads may claim one address. While one of them is not ready, it may be the
// endpoint's.
Readiness ReadinessGate::readiness_of(const ServiceName& service, const std::string& address,
                                      const ServiceIdentity& identity) const {
  const std::set<model::ProxyKey>* proxies = find_in(by_address_, address);
  if (!proxies) return Readiness::kUnknown;
  bool any_ready = false;
  for (const model::ProxyKey& proxy : *proxies) {
    const auto workload = workloads_.find(proxy);
    if (!workload || identity_of(workload->workload.account) != identity) continue;
    const Readiness readiness = readiness_of(*workload, service);
    if (readiness == Readiness::kNotReady) return readiness;
    any_ready |= readiness == Readiness::kReady;
  }
  return any_ready ? Readiness::kReady : Readiness::kUnknown;
}

// The event of the workload may be later than that of its endpoint: until then its ports are
// others.
Readiness ReadinessGate::readiness_of(const model::WorkloadEntry& workload,
                                      const ServiceName& service) const {
  const std::vector<MeshService> own = model::own_ports_of(services_, workload.workload).ports;
  const Readiness readiness = proxies_.readiness_of(workload.proxy, own);
  const bool serves = std::any_of(own.begin(), own.end(),
                                  [&](const MeshService& port) { return port.name == service; });
  return readiness == Readiness::kReady && !serves ? Readiness::kNotReady : readiness;
}

void ReadinessGate::filter(model::ServiceEndpoints& endpoints,
                           const model::ServiceEndpoints* known) {
  Waits before;
  if (Waits* held = find_in(waiting_, endpoints.service)) before = std::move(*held);
  Waits waits;
  if (!first_) {
    std::vector<Endpoint> waiting;
    std::erase_if(endpoints.endpoints, [&](const Endpoint& endpoint) {
      if (known && has_place_of(*known, endpoint)) return false;
      if (!hides(endpoints.service, endpoint, before, waits)) return false;
      waiting.push_back(endpoint);
      return true;
    });
    if (known && !waiting.empty()) keep_former(*known, waiting, endpoints.endpoints);
  }
  if (waits.empty()) {
    waiting_.erase(endpoints.service);
  } else {
    waiting_[endpoints.service] = std::move(waits);
  }
}

// Puts into `endpoints`, which are ordered, what clients know: of the workloads that are to serve
// at another port, and of all while nothing else serves that port of the Service.
void ReadinessGate::keep_former(const model::ServiceEndpoints& known,
                                const std::vector<Endpoint>& waiting,
                                std::vector<Endpoint>& endpoints) const {
  std::set<Member> members;
  for (const Endpoint& one : waiting) members.insert(member_of(one));
  const std::set<std::string_view> waited = service_ports(waiting);
  std::vector<Endpoint> stay, left;
  for (const Endpoint& former : known.endpoints) {
    if (!waited.contains(former.service_port) || !may_serve(former) ||
        std::binary_search(endpoints.begin(), endpoints.end(), former, by_place))
      continue;
    (members.contains(member_of(former)) ? stay : left).push_back(former);
  }
  const auto keep = [&](std::vector<Endpoint> kept) {
    endpoints.insert(endpoints.end(), std::make_move_iterator(kept.begin()),
                     std::make_move_iterator(kept.end()));
  };
  keep(std::move(stay));
  const std::set<std::string_view> served = service_ports(endpoints);
  std::erase_if(left, [&](const Endpoint& one) { return served.contains(one.service_port); });
  keep(std::move(left));
  std::sort(endpoints.begin(), endpoints.end());
}

// True if the workload is in the mesh, and not denied.
bool ReadinessGate::may_serve(const Endpoint& endpoint) const {
  const std::set<model::ProxyKey>* proxies = find_in(by_address_, endpoint.address);
  return proxies && std::any_of(proxies->begin(), proxies->end(), [&](const auto& proxy) {
           const auto workload = workloads_.find(proxy);
           return workload && workload->denied.empty() &&
                  identity_of(workload->workload.account) == endpoint.identity;
         });
}

// `before`: endpoints of the service that waited. `waits` gets those that wait from now on.
bool ReadinessGate::hides(const ServiceName& service, const Endpoint& endpoint, Waits& before,
                          Waits& waits) {
  const Place place{endpoint.address, endpoint.port};
  if (waits.contains(place)) return true;  // it serves several ports of the Service
  const Readiness readiness = readiness_of(service, endpoint.address, endpoint.identity);
  const SteadyTime now = clock_.steady_now();
  const Wait* waited = find_in(before, place);
  if (!waited) {
    if (readiness != Readiness::kNotReady) return false;
    waits.emplace(place, Wait{endpoint.identity, now + kBound});
    return true;
  }
  // A proxy that is gone meanwhile may be back in time.
  if (readiness != Readiness::kReady && now < waited->until) {
    waits.emplace(place, *waited);
    return true;
  }
  announced_late_ += readiness != Readiness::kReady;
  if (waited->since != 0) announced_.insert(waited->since);
  return false;
}

std::set<std::uint64_t> ReadinessGate::end(std::uint64_t generation, bool fresh) {
  for (auto& [service, waits] : waiting_)
    for (auto& [place, wait] : waits)
      if (std::exchange(wait.fresh, false) && fresh) wait.since = generation;
  return std::exchange(announced_, {});
}

std::set<ServiceName> ReadinessGate::due() const {
  const SteadyTime now = clock_.steady_now();
  std::set<ServiceName> services;
  for (const auto& [service, waits] : waiting_)
    if (std::any_of(waits.begin(), waits.end(), [&](const auto& one) {
          const auto& [place, wait] = one;
          return now >= wait.until ||
                 readiness_of(service, place.first, wait.identity) == Readiness::kReady;
        }))
      services.insert(service);
  return services;
}

std::optional<SteadyTime> ReadinessGate::deadline() const {
  std::optional<SteadyTime> first;
  for (const auto& [service, waits] : waiting_)
    for (const auto& [place, wait] : waits)
      if (!first || wait.until < *first) first = wait.until;
  return first;
}

ReadinessGate::Waiting ReadinessGate::waiting() const {
  Waiting out;
  for (const auto& [service, waits] : waiting_)
    for (const auto& [place, wait] : waits) {
      out.addresses.emplace(service, place.first);
      if (wait.since != 0) out.generations.insert(wait.since);
      ++out.endpoints;
    }
  return out;
}

}  // namespace osm::inline v1::catalog
