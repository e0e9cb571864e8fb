#include "catalog/resolve_policies.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "base/digest.hpp"
#include "base/feed.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::catalog {
namespace {

using model::ServiceEntry;
using model::TargetEntry;
using model::Upstream;

// MeshSnapshot::admits_of(), where 1 stands for everybody.
std::uint64_t admissions(const std::vector<InboundTrafficPolicy>& inbound) {
  if (inbound.empty()) return 0;
  DigestBuilder digest;
  feed(digest, inbound);
  return std::max<std::uint64_t>(digest.finish().number(), 2);
}

// Adds the matches that the rule names, each once.
void add_matches(const smi::TrafficTargetRule& rule, const smi::HttpRouteGroup& group,
                 TargetEntry& out) {
  auto& routes = out.policy.http_routes;
  for (const std::string& name : rule.matches) {
    const auto match =
        std::find_if(group.matches.begin(), group.matches.end(),
                     [&](const smi::HttpMatch& candidate) { return candidate.name == name; });
    if (match == group.matches.end()) continue;
    RoutePolicy route = route_policy(group.name, *match);
    if (std::find(routes.begin(), routes.end(), route) != routes.end()) continue;
    routes.push_back(std::move(route));
    out.route_origins.push_back(
        {out.origin.object, "spec.rules[" + std::to_string(rule.place) + ']'});
  }
}

// `allowed`: the destinations that the client may call.
Upstream upstream_to(const ServiceEntry& service, const std::set<ServiceIdentity>& allowed,
                     bool dialled) {
  Upstream out{.service = service.name, .dialled = dialled, .every_identity = true, .allowed = {}};
  std::set_intersection(service.identities.begin(), service.identities.end(), allowed.begin(),
                        allowed.end(), std::back_inserter(out.allowed));
  out.every_identity = out.allowed.size() == service.identities.size();
  if (out.every_identity) out.allowed.clear();  // canonical form
  return out;
}

template <class Map>
const typename Map::mapped_type& at_or_none(const Map& map, const typename Map::key_type& key) {
  static const typename Map::mapped_type kNone;
  const auto* found = find_in(map, key);
  return found ? *found : kNone;
}

}  // namespace

RoutePolicy route_policy(const smi::ObjectName& group, const smi::HttpMatch& match) {
  return {match.name, match.path_regex, match.methods, match.headers, group};
}

TargetEntry resolve_target(const smi::TrafficTarget& target, const RouteObjects& routes) {
  TargetEntry out{.destination = identity_of(target.destination), .policy = {}};
  InboundTrafficPolicy& policy = out.policy;
  policy.target = target.name;
  out.origin.object = {kinds::kTrafficTarget, target.name.ns, target.name.name};
  std::set<ServiceIdentity> sources;
  for (const ServiceAccount& source : target.sources) sources.insert(identity_of(source));
  policy.sources.assign(sources.begin(), sources.end());
  TargetEntry nothing = out;
  nothing.origin.in_force = false;
  std::set<Port> ports;
  bool any_port = false;
  for (const smi::TrafficTargetRule& rule : target.rules) {
    const smi::ObjectName name{target.name.ns, rule.name};
    if (rule.kind == smi::RouteKind::kHttpRouteGroup) {
      if (const auto* group = find_in(routes.http, name)) add_matches(rule, **group, out);
      continue;
    }
    const auto* route = find_in(routes.tcp, name);
    if (!route) return nothing;  // its ports bound the HTTP grants, and nobody knows them
    policy.tcp = true;
    any_port |= (*route)->ports.empty();
    ports.insert((*route)->ports.begin(), (*route)->ports.end());
  }
  // A TCPRoute without a port list means any port; so does its union with others.
  if (!any_port) policy.tcp_ports.assign(ports.begin(), ports.end());
  out.origin.in_force = out.grants();
  return out;
}

PolicyIndex::PolicyIndex(const Table<TargetEntry>& targets, const Table<ServiceEntry>& services) {
  for (const auto& target : targets) {
    by_destination_[target->destination].push_back(target);
    for (const ServiceIdentity& source : target->policy.sources)
      by_source_[source].push_back(target);
  }
  for (const auto& service : services) {
    for (const ServiceIdentity& identity : service->identities)
      services_[identity].push_back(service);
    if (service->idle) idle_[service->name.ns].push_back(service);
  }
}

const PolicyIndex::Targets& PolicyIndex::with_source(const ServiceIdentity& identity) const {
  return at_or_none(by_source_, identity);
}

const PolicyIndex::Targets& PolicyIndex::with_destination(const ServiceIdentity& identity) const {
  return at_or_none(by_destination_, identity);
}

PolicyIndex::Targets PolicyIndex::with_destination_in(const std::string& ns) const {
  Targets out;
  for (auto at = by_destination_.lower_bound({ns, ""});
       at != by_destination_.end() && at->first.ns == ns; ++at)
    out.insert(out.end(), at->second.begin(), at->second.end());
  return out;
}

const PolicyIndex::Services& PolicyIndex::services_of(const ServiceIdentity& identity) const {
  return at_or_none(services_, identity);
}

const PolicyIndex::Services& PolicyIndex::idle_in(const std::string& ns) const {
  return at_or_none(idle_, ns);
}

model::IdentityPolicy resolve_policy(const ServiceIdentity& identity, const PolicyIndex& index,
                                     const Table<ServiceEntry>& services, const Denials& denied) {
  std::set<ServiceIdentity> allowed;
  for (const auto& target : index.with_source(identity))
    if (target->grants()) allowed.insert(target->destination);

  std::map<ServiceName, Upstream> upstreams;
  PolicyIndex::Services apexes;
  const auto add_dialled = [&](const PolicyIndex::Services& services_of) {
    for (const auto& service : services_of) {
      upstreams.try_emplace(service->name, upstream_to(*service, allowed, true));
      if (service->split) apexes.push_back(service);
    }
  };
  std::set<std::string> namespaces;
  for (const ServiceIdentity& destination : allowed) {
    add_dialled(index.services_of(destination));
    namespaces.insert(destination.ns);
  }
  for (const std::string& ns : namespaces) add_dialled(index.idle_in(ns));
  for (const auto& apex : apexes)
    for (const WeightedCluster& backend : *apex->split)
      if (const auto service = services.find(backend.service))
        upstreams.try_emplace(service->name, upstream_to(*service, allowed, false));

  model::IdentityPolicy out;
  out.identity = identity;
  std::vector<Upstream> list;
  for (auto& [name, upstream] : upstreams) list.push_back(std::move(upstream));
  out.upstreams = std::make_shared<const std::vector<Upstream>>(std::move(list));
  std::set<ServiceIdentity> refused;
  for (const auto& target : index.with_destination(identity)) {
    if (!target->grants()) continue;
    InboundTrafficPolicy policy = target->policy;
    std::erase_if(policy.sources, [&](const ServiceIdentity& source) {
      const bool is_denied = denied.accounts.contains(source);
      if (is_denied) refused.insert(source);
      return is_denied;
    });
    if (!policy.sources.empty()) out.inbound.push_back(std::move(policy));
  }
  out.denied.assign(refused.begin(), refused.end());
  out.admits = admissions(out.inbound);
  return out;
}

std::vector<Upstream> resolve_permissive(const Table<ServiceEntry>& services, bool egress) {
  std::vector<Upstream> out;
  for (const auto& service : services)
    if (!egress || !service->outside || service->split)
      out.push_back(
          {.service = service->name, .dialled = true, .every_identity = true, .allowed = {}});
  return out;
}

}  // namespace osm::inline v1::catalog
