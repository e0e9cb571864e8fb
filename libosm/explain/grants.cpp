#include <algorithm>

#include "explain/call.hpp"
#include "explain/policy_check.hpp"

namespace osm::inline v1::explain {
namespace {

constexpr std::size_t kMostNamed = 3;  // number of targets that a denial names

bool contains(const std::vector<ServiceIdentity>& sorted, const ServiceIdentity& one) {
  return std::binary_search(sorted.begin(), sorted.end(), one);
}

std::string methods_of(const RoutePolicy& route) {
  std::string out;
  for (const std::string& method : route.methods) out += (out.empty() ? "" : ",") + method;
  return out.empty() ? "any method" : out;
}

std::string text_of(const RoutePolicy& route) {
  std::string out = methods_of(route) + ' ' + route.path_regex;
  for (const auto& [name, value] : route.headers) out += " with " + name + ": " + value;
  return out;
}

std::string nearest_text(const model::TargetEntry& target) {
  std::string sources;
  for (const ServiceIdentity& source : target.policy.sources)
    sources += (sources.empty() ? "" : ", ") + source.str();
  return "TrafficTarget " + target.policy.target.str() + " lets " +
         (sources.empty() ? "nobody" : sources) + " call " + target.destination.str();
}

// The targets of the destinations, else those of the source.
std::string nearest(const ExplainedCall& call, const std::vector<ServiceIdentity>& accounts) {
  std::vector<std::string> found;
  for (const bool by_source : {false, true}) {
    for (const auto& target : call.mesh.targets)
      if (by_source ? contains(target->policy.sources, call.source)
                    : contains(accounts, target->destination))
        found.push_back(nearest_text(*target));
    if (!found.empty()) break;
  }
  std::string out;
  for (std::size_t i = 0; i < std::min(found.size(), kMostNamed); ++i)
    out += (i == 0 ? "; nearest: " : "; ") + found[i];
  return found.size() > kMostNamed ? out + "; and others" : out;
}

}  // namespace

bool reaches(const InboundTrafficPolicy& policy, Port port) {
  const auto& ports = policy.tcp_ports;
  return ports.empty() || std::find(ports.begin(), ports.end(), port) != ports.end();
}

std::pair<model::Origin, std::string> rule_of(const ExplainedCall& call,
                                              const InboundTrafficPolicy& policy,
                                              const RoutePolicy& route) {
  const auto target = call.mesh.targets.find(policy.target);  // has the routes of `policy`
  const auto& routes = target->policy.http_routes;
  const auto at = std::find(routes.begin(), routes.end(), route) - routes.begin();
  return {
      target->route_origins[static_cast<std::size_t>(at)],
      text_of(route) + " (match " + route.name + " of HTTPRouteGroup " + route.group.str() + ")"};
}

ExplainedStep missing_target(const ExplainedCall& call, std::string stage,
                             const std::vector<ServiceIdentity>& accounts) {
  std::string names;
  for (const ServiceIdentity& account : accounts)
    names += (names.empty() ? "" : " or ") + account.str();
  const std::string waits =
      " clients are told of it when the proxies of its servers have acknowledged it, 5 s at most: "
      "ask again";
  if (call.mesh.smi_upstreams)
    return step(std::move(stage), StepEffect::kDenies, "the mesh becomes permissive, and" + waits,
                model::mesh_config_key(), "spec.traffic.enablePermissiveTrafficPolicyMode");
  std::vector<std::shared_ptr<const model::TargetEntry>> named;
  for (const auto& target : call.mesh.targets)
    if (contains(accounts, target->destination) && contains(target->policy.sources, call.source))
      named.push_back(target);
  for (const auto& target : named)
    if (target->grants())
      return step(std::move(stage), StepEffect::kDenies, "it permits the call, and" + waits,
                  target->origin);
  for (const auto& target : named)
    return step(std::move(stage), StepEffect::kDenies,
                "it names " + call.source.str() + " and " + target->destination.str() +
                    " but grants nothing: the routes and matches that its rules name, or one of "
                    "its TCPRoutes, do not exist; create them",
                target->origin.object, "spec.rules");
  return step(std::move(stage), StepEffect::kDenies,
              "no TrafficTarget names " + call.source.str() + " as a source and " + names +
                  " as its destination: add one to namespace " + accounts.front().ns +
                  nearest(call, accounts));
}

}  // namespace osm::inline v1::explain
