#include "catalog/readiness_gate.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::Readiness;
using model::Upstream;
using Accounts = std::vector<ServiceIdentity>;  // ordered

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

bool has(const Accounts& accounts, const ServiceIdentity& account) {
  return std::binary_search(accounts.begin(), accounts.end(), account);
}

// The accounts that the upstream admits behind its Service.
const Accounts& accounts_of(const Upstream& upstream, const model::ServiceEntry& service) {
  return upstream.every_identity ? service.identities : upstream.allowed;
}

}  // namespace

Announcements::Due ReadinessGate::begin(const model::MeshSnapshot& next, bool first) {
  first_ = first;
  begun_ = true;
  servers_.begin(next);
  Due out = due();
  due_clients_ = out.clients;
  out.smi_upstreams = keeps_smi(next.config.proxy.permissive);
  return out;
}

// True if clients keep to the policies, though the mesh is permissive.
bool ReadinessGate::keeps_smi(bool permissive) {
  const bool was_permissive = std::exchange(permissive_, permissive);
  const ModeWaits::Some before = mode_.take({});
  if (first_ || !permissive || (was_permissive && before.empty())) return false;
  ModeWaits::Some waits;
  const bool keeps = mode_.hides({}, readiness_of_mode(), before, waits, false);
  mode_.put({}, std::move(waits));
  return keeps;
}

Readiness ReadinessGate::readiness_of_mode() const {
  return servers_.all_ready() ? Readiness::kReady : Readiness::kNotReady;
}

void ReadinessGate::filter(std::vector<model::IdentityPolicy>& policies) {
  servers_.expect(policies);
  asked_.clear();
  for (model::IdentityPolicy& policy : policies)
    filter(policy, due_clients_.erase(policy.identity) == 0);
  for (const ServiceIdentity& client : std::exchange(due_clients_, {})) grants_.take(client);
}

// `changed`: not only readiness did.
void ReadinessGate::filter(model::IdentityPolicy& policy, bool changed) {
  const GrantWaits::Some before = grants_.take(policy.identity);
  const auto known = servers_.mesh().policies.find(policy.identity);
  if (first_ || !known) return;
  GrantWaits::Some waits;
  std::vector<Upstream> upstreams;
  for (const Upstream& upstream : *policy.upstreams)
    if (auto part = known_part(upstream, *known->upstreams, before, waits, changed))
      upstreams.push_back(*std::move(part));
  if (!waits.empty())
    policy.upstreams = std::make_shared<const std::vector<Upstream>>(std::move(upstreams));
  grants_.put(policy.identity, std::move(waits));
}

// The upstream without the accounts that wait; nullopt: the client does not know of its Service.
// `known`: what it knows.
std::optional<Upstream> ReadinessGate::known_part(const Upstream& upstream,
                                                  const std::vector<Upstream>& known,
                                                  const GrantWaits::Some& before,
                                                  GrantWaits::Some& waits, bool changed) {
  const auto service = servers_.mesh().services.find(upstream.service);
  const auto former = services_.find(upstream.service);
  if (!service || !former) return upstream;
  const Upstream* called = model::find_upstream(known, upstream.service);
  const auto is_called = [&](const ServiceName& apex) {
    return model::find_upstream(known, apex) != nullptr;
  };
  if (!called && std::none_of(service->apexes.begin(), service->apexes.end(), is_called))
    return upstream;
  const Accounts& accounts = accounts_of(upstream, *service);
  Accounts told;
  for (const ServiceIdentity& account : accounts) {
    // An account that comes to the Service comes with endpoints.
    const bool was_there = has(former->identities, account);
    if ((called && has(accounts_of(*called, *former), account)) || !was_there ||
        !grants_.hides({upstream.service, account},
                       readiness_of(asked_, {upstream.service, account}), before, waits, changed))
      told.push_back(account);
  }
  if (told.size() == accounts.size()) return upstream;
  if (told.empty() && !called) return std::nullopt;  // other backends of the apex get its calls
  return Upstream{upstream.service, upstream.dialled, false, std::move(told)};
}

void ReadinessGate::filter(model::ServiceEndpoints& endpoints,
                           const model::ServiceEndpoints* known) {
  const EndpointWaits::Some before = endpoints_.take(endpoints.service);
  if (first_) return;
  EndpointWaits::Some waits;
  std::vector<Endpoint> waiting;
  std::erase_if(endpoints.endpoints, [&](const Endpoint& endpoint) {
    if (known && has_place_of(*known, endpoint)) return false;
    const Readiness readiness = servers_.at(endpoints.service, endpoint.address, endpoint.identity);
    if (!endpoints_.hides({endpoint.address, endpoint.port, endpoint.identity}, readiness, before,
                          waits, true))
      return false;
    waiting.push_back(endpoint);
    return true;
  });
  if (known && !waiting.empty()) keep_former(*known, waiting, endpoints.endpoints);
  endpoints_.put(endpoints.service, std::move(waits));
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
    if (!waited.contains(former.service_port) || !servers_.may_serve(former) ||
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

std::set<std::uint64_t> ReadinessGate::end(std::uint64_t generation, bool fresh) {
  std::set<std::uint64_t> told;
  endpoints_.end(generation, fresh, told);
  grants_.end(generation, fresh, told);
  mode_.end(generation, fresh, told);
  if (begun_) services_ = servers_.mesh().services;
  return told;
}

// Many clients may ask for one account.
Readiness ReadinessGate::readiness_of(std::map<Grant, Readiness>& asked, const Grant& grant) const {
  const auto [at, fresh] = asked.try_emplace(grant);
  if (fresh) at->second = servers_.of(grant.first, grant.second);
  return at->second;
}

Announcements::Due ReadinessGate::due() const {
  std::map<Grant, Readiness> asked;
  const auto of_endpoint = [&](const ServiceName& service, const Place& place) {
    return servers_.at(service, std::get<std::string>(place), std::get<ServiceIdentity>(place));
  };
  const auto of_grant = [&](const ServiceIdentity&, const Grant& grant) {
    return readiness_of(asked, grant);
  };
  return {.services = endpoints_.due(of_endpoint),
          .clients = grants_.due(of_grant),
          .smi_upstreams = !mode_.waiting().empty()};
}

bool ReadinessGate::is_due() const {
  const Due what = due();
  const auto of_mode = [&](std::monostate, std::monostate) { return readiness_of_mode(); };
  return !what.services.empty() || !what.clients.empty() || !mode_.due(of_mode).empty();
}

std::optional<SteadyTime> ReadinessGate::deadline() const {
  std::optional<SteadyTime> first;
  for (const auto& until : {endpoints_.deadline(), grants_.deadline(), mode_.deadline()})
    if (until && (!first || *until < *first)) first = until;
  return first;
}

ReadinessGate::Waiting ReadinessGate::waiting() const {
  Waiting out;
  const auto add = [&](const auto& waits, std::size_t& count) {
    for (const auto& [owner, some] : waits.waiting())
      for (const auto& [key, wait] : some) {
        out.generations.insert(wait.generations.begin(), wait.generations.end());
        ++count;
      }
  };
  add(endpoints_, out.endpoints);
  add(grants_, out.permissions);
  add(mode_, out.permissions);
  for (const auto& [service, places] : endpoints_.waiting())
    for (const auto& [place, wait] : places)
      out.addresses.emplace(service, std::get<std::string>(place));
  return out;
}

}  // namespace osm::inline v1::catalog
