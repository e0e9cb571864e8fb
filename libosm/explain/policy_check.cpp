#include "explain/policy_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::explain {
namespace {

using model::TargetEntry;

constexpr std::size_t kNearest = 3;  // number of targets that a denial names

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string describe(const RoutePolicy& route) {
  std::string out = route.methods.empty() ? "any method" : join(route.methods, ",");
  out += ' ' + route.path_regex;
  for (const auto& [name, value] : route.headers) out += " with " + name + ": " + value;
  return out;
}

std::vector<ServiceName> services_of(const model::MeshSnapshot& snapshot,
                                     const ServiceIdentity& identity) {
  std::vector<ServiceName> out;
  for (const auto& service : snapshot.services)
    if (std::binary_search(service->identities.begin(), service->identities.end(), identity))
      out.push_back(service->name);
  return out;
}

bool has_source(const TargetEntry& target, const ServiceIdentity& source) {
  const auto& sources = target.policy.sources;
  return std::binary_search(sources.begin(), sources.end(), source);
}

std::string name_sources(const TargetEntry& target) {
  std::vector<std::string> names;
  for (const ServiceIdentity& source : target.policy.sources) names.push_back(source.str());
  return "TrafficTarget " + target.policy.target.str() + " allows it to " +
         (names.empty() ? "nobody" : join(names, ", "));
}

// The targets nearest to a denied call: those of the same destination, else those of the same
// source.
std::string nearest(const model::MeshSnapshot& snapshot, const ServiceIdentity& source,
                    const ServiceIdentity& destination) {
  std::vector<std::string> found;
  for (const auto& target : snapshot.targets)
    if (target->destination == destination) found.push_back(name_sources(*target));
  if (found.empty())
    for (const auto& target : snapshot.targets)
      if (has_source(*target, source))
        found.push_back("TrafficTarget " + target->policy.target.str() + " lets it call " +
                        target->destination.str());
  if (found.size() > kNearest) {
    found.resize(kNearest);
    found.push_back("and others");
  }
  return found.empty() ? "" : "; nearest: " + join(found, "; ");
}

std::string quote_left_out(const std::vector<Problem>& problems, const std::string& ns) {
  std::vector<std::string> quoted;
  for (const Problem& problem : problems)
    if (problem.object.is(kinds::kTrafficTarget) && problem.object.ns == ns)
      quoted.push_back(problem.text());
  return quoted.empty() ? "" : "; left out: " + join(quoted, "; ");
}

}  // namespace

std::string describe_grant(const InboundTrafficPolicy& policy) {
  std::vector<std::string> parts;
  std::string ports;
  for (const Port port : policy.tcp_ports)
    ports += (ports.empty() ? "" : ",") + std::to_string(number(port));
  const std::string on = ports.empty() ? "" : " on port " + ports;
  for (const RoutePolicy& route : policy.http_routes) parts.push_back(describe(route) + on);
  if (policy.tcp) parts.push_back(ports.empty() ? "any TCP port" : "TCP port " + ports);
  return parts.empty() ? "nothing" : join(parts, "; ");
}

TrafficPolicy traffic_policy(const TargetEntry& target, const ServiceIdentity& source,
                             std::vector<ServiceName> source_services,
                             std::vector<ServiceName> destination_services) {
  return {
      .target = target.policy.target,
      .source = {.identity = source, .services = std::move(source_services)},
      .destination = {.identity = target.destination, .services = std::move(destination_services)},
      .http_routes = target.policy.http_routes,
      .tcp = target.policy.tcp,
      .tcp_ports = target.policy.tcp_ports};
}

PolicyDecision check_policy(const model::MeshSnapshot& snapshot, const ServiceIdentity& source,
                            const ServiceIdentity& destination,
                            const std::vector<Problem>& left_out) {
  PolicyDecision out;
  for (const ServiceIdentity& party : {source, destination}) {
    if (const Denial* denial = find_in(snapshot.denied->accounts, party)) {
      out.reason = "denied: nobody may call or be called as " + party.str() + ": " + denial->text();
      return out;
    }
  }
  if (snapshot.config.proxy.permissive) {
    out.allowed = true;
    out.reason =
        "allowed: the mesh is in permissive mode (MeshConfig "
        "spec.traffic.enablePermissiveTrafficPolicyMode), where every account may call every "
        "other and no TrafficTarget is asked";
    return out;
  }
  std::vector<std::string> grants;
  std::vector<std::string> empty;
  for (const auto& target : snapshot.targets) {
    if (target->destination != destination || !has_source(*target, source)) continue;
    const std::string name = "TrafficTarget " + target->policy.target.str();
    if (!target->grants()) {
      empty.push_back(name);
      continue;
    }
    grants.push_back(name + ": " + describe_grant(target->policy));
    out.deciding.push_back(traffic_policy(*target, source, services_of(snapshot, source),
                                          services_of(snapshot, destination)));
  }
  if (!grants.empty()) {
    out.allowed = true;
    out.reason = "allowed by " + join(grants, ", and by ");
  } else if (!empty.empty()) {
    out.reason = "denied: " + join(empty, " and ") + " names both accounts but grants nothing: " +
                 "the routes and matches that its rules name, or one of its TCPRoutes, do not "
                 "exist (osm problems)";
  } else {
    out.reason = "denied: no TrafficTarget names " + source.str() + " as a source and " +
                 destination.str() + " as its destination" +
                 nearest(snapshot, source, destination) + quote_left_out(left_out, destination.ns);
  }
  return out;
}

}  // namespace osm::inline v1::explain
