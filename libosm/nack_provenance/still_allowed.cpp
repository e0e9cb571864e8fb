#include "nack_provenance/still_allowed.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "osm/values/denylist.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

template <class T>
std::vector<T> common(std::vector<T> list, const std::vector<T>& others) {
  std::erase_if(list, [&](const T& one) {
    return std::find(others.begin(), others.end(), one) == others.end();
  });
  return list;
}

bool same_route(const smi::TrafficTargetRule& a, const smi::TrafficTargetRule& b) {
  return a.kind == b.kind && a.name == b.name;
}

bool is_tcp(const smi::TrafficTargetRule& rule) { return rule.kind == smi::RouteKind::kTcpRoute; }

// The rules of `before`, each with the matches that `after` names as well. TCPRoutes of `after`
// bound the result, since HTTP grants hold on their ports only.
std::vector<smi::TrafficTargetRule> common_rules(std::vector<smi::TrafficTargetRule> before,
                                                 const std::vector<smi::TrafficTargetRule>& after) {
  std::vector<smi::TrafficTargetRule> out;
  const bool had_tcp = std::any_of(before.begin(), before.end(), is_tcp);
  for (smi::TrafficTargetRule& rule : before) {
    std::vector<std::string> named;
    bool found = false;
    for (const smi::TrafficTargetRule& other : after) {
      if (!same_route(rule, other)) continue;
      found = true;
      named.insert(named.end(), other.matches.begin(), other.matches.end());
    }
    if (!found) continue;
    rule.matches = common(std::move(rule.matches), named);
    out.push_back(std::move(rule));
  }
  if (std::none_of(after.begin(), after.end(), is_tcp)) return out;
  if (!had_tcp) std::copy_if(after.begin(), after.end(), std::back_inserter(out), is_tcp);
  if (std::none_of(out.begin(), out.end(), is_tcp)) out.clear();
  return out;
}

// Each overload returns nullopt if there is nothing that both versions allow.

std::optional<smi::TrafficTarget> allowed_by_both(smi::TrafficTarget before,
                                                  const smi::TrafficTarget& after) {
  if (before.destination != after.destination) return std::nullopt;
  before.sources = common(std::move(before.sources), after.sources);
  before.rules = common_rules(std::move(before.rules), after.rules);
  if (before.sources.empty() || before.rules.empty()) return std::nullopt;
  return before;
}

std::optional<smi::HttpRouteGroup> allowed_by_both(smi::HttpRouteGroup before,
                                                   const smi::HttpRouteGroup& after) {
  before.matches = common(std::move(before.matches), after.matches);
  if (before.matches.empty()) return std::nullopt;
  return before;
}

std::optional<smi::TcpRoute> allowed_by_both(smi::TcpRoute before, const smi::TcpRoute& after) {
  if (after.ports.empty()) return before;
  if (before.ports.empty()) return after;
  before.ports = common(std::move(before.ports), after.ports);
  if (before.ports.empty()) return std::nullopt;  // an empty list would mean any port
  return before;
}

std::optional<Service> allowed_by_both(Service before, const Service& after) {
  before.ports = common(std::move(before.ports), after.ports);
  if (before.ports.empty()) return std::nullopt;
  return before;
}

std::optional<smi::TrafficSplit> allowed_by_both(smi::TrafficSplit before,
                                                 const smi::TrafficSplit&) {
  return before;
}

// The policy may grant or forbid: only a version that is in force anyway is safe.
std::optional<Policy> allowed_by_both(Policy before, const Policy& after) {
  if (!(before == after)) return std::nullopt;
  return before;
}

bool only_forbids(const Policy& policy) { return policy.get<Denylist>() != nullptr; }
template <class T>
bool only_forbids(const T&) {
  return false;
}

template <class T>
SharedList<T> allowed_by_both(const SharedList<T>& before, const SharedList<T>& after) {
  SharedList<T> out;
  for (const auto& object : after) {
    if (only_forbids(*object)) {
      out.push_back(object);
      continue;
    }
    const auto then = model::find(before, model::key_of(*object));
    if (!then) continue;
    std::optional<T> both = allowed_by_both(*then, *object);
    if (!both) continue;
    out.push_back(*both == *object ? object : std::make_shared<const T>(*std::move(both)));
  }
  return out;
}

}  // namespace

SharedList<Policy> denylists(const model::SpecObjects& objects) {
  SharedList<Policy> out;
  for (const auto& policy : objects.policies)
    if (only_forbids(*policy)) out.push_back(policy);
  return out;
}

MeshConfig still_allowed(const MeshConfig& before, const MeshConfig& after) {
  MeshConfig out = after;
  out.proxy = before.proxy;
  out.proxy.permissive &= after.proxy.permissive;
  out.proxy.egress &= after.proxy.egress;
  out.proxy.egress_policy &= after.proxy.egress_policy;
  out.proxy.ingress &= after.proxy.ingress;
  out.proxy.external_authorization = after.proxy.external_authorization;
  if (out.proxy.tls.minimum < after.proxy.tls.minimum) {
    out.proxy.tls.minimum = after.proxy.tls.minimum;
    out.proxy.tls.maximum = after.proxy.tls.maximum;
  }
  return out;
}

model::SpecObjects still_allowed(const model::SpecObjects& before,
                                 const model::SpecObjects& after) {
  model::SpecObjects out;
  out.config = still_allowed(before.config, after.config);
  out.namespaces = after.namespaces;
  out.control_plane_namespace = after.control_plane_namespace;
  model::for_each_list(
      [&](auto list, auto) { out.*list = allowed_by_both(before.*list, after.*list); });
  return out;
}

}  // namespace osm::inline v1::nack_provenance
