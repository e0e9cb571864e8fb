// TrafficTargets and the HTTPRouteGroups that they name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/json.hpp"
#include "catalog/resolve_policies.hpp"
#include "migrate/differences.hpp"
#include "migrate/paths.hpp"
#include "migrate/workloads.hpp"
#include "model/spec_tables.hpp"

namespace osm::inline v1::migrate {
namespace {

using Targets = std::vector<std::shared_ptr<const smi::TrafficTarget>>;

constexpr std::string_view kPathsAnnotation = "openservicemesh.io/http-paths";

bool has_tcp_rule(const smi::TrafficTarget& target) {
  return std::any_of(target.rules.begin(), target.rules.end(),
                     [](const auto& rule) { return rule.kind == smi::RouteKind::kTcpRoute; });
}

// ---- HTTP-only targets, which opened TCP in OSM v1.2

class TcpPorts {
 public:
  explicit TcpPorts(const Mesh& mesh) : mesh_(mesh) {
    for (const auto& target : mesh.view.targets)
      if (const auto entry = catalog::resolve_target(*target, mesh.view); entry.policy.tcp)
        granted_[entry.destination].push_back(entry.policy);
  }

  // "port 5432 (tcp) of Service shop/db", for each port that the target opened in OSM v1.2 and that
  // no target opens to all its sources here.
  std::vector<std::string> closed(const smi::TrafficTarget& target) const {
    std::vector<std::string> out;
    for (const auto& service : services_of(mesh_, target.destination).services)
      for (const ServicePort& port : service->ports)
        if (!is_http(port.protocol) && !is_granted(target, port))
          out.push_back(fmt::format("port {} ({}) of Service {}", number(port.port),
                                    protocol_text(port.protocol), service->name.str()));
    return out;
  }

 private:
  bool is_granted(const smi::TrafficTarget& target, const ServicePort& port) const {
    const auto at = granted_.find(ServiceIdentity{target.destination.ns, target.destination.name});
    const auto wanted = target_port(mesh_, target.destination, port);
    return std::all_of(
        target.sources.begin(), target.sources.end(), [&](const ServiceAccount& source) {
          return at != granted_.end() &&
                 std::any_of(at->second.begin(), at->second.end(), [&](const auto& policy) {
                   const auto& ports = policy.tcp_ports;
                   return std::binary_search(policy.sources.begin(), policy.sources.end(),
                                             ServiceIdentity{source.ns, source.name}) &&
                          (ports.empty() ||
                           (wanted && std::binary_search(ports.begin(), ports.end(), *wanted)));
                 });
        });
  }

  const Mesh& mesh_;
  std::map<ServiceIdentity, std::vector<InboundTrafficPolicy>> granted_;
};

void compare_tcp(const Mesh& mesh, Differences& out) {
  const TcpPorts ports(mesh);
  for (const auto& target : mesh.view.targets) {
    if (has_tcp_rule(*target)) continue;
    const auto closed = ports.closed(*target);
    if (closed.empty()) continue;
    const bool known = services_of(mesh, target->destination).known;
    out.add(
        mesh.object(model::key_of(*target)),
        {.verdict = Verdict::kLess,
         .access = Access::kRefused,
         .field = "spec.rules",
         .reason = fmt::format(
             "without a TCPRoute rule it opens no TCP port here; OSM v1.2 opened every port of "
             "the destination, such as {}{}",
             fmt::join(closed, " and "),
             known ? ""
                   : " (the dump has no pod of the account: any Service of the namespace may be "
                     "its)"),
         .remedy = "If the sources need these ports, add a second TrafficTarget with a TCPRoute "
                   "rule. A TCPRoute rule in this one would limit its HTTP rules to that port."});
  }
}

// ---- routes that cover the same requests

// One route of OSM v1.2: a match, with the targets that grant it and all their sources.
struct Route {
  RoutePolicy match;
  PathSet paths;
  std::set<smi::ObjectName> targets;
  std::set<ServiceIdentity> sources;
};

std::vector<Route> routes_to(const std::vector<model::TargetEntry>& entries) {
  std::map<std::tuple<std::string, std::vector<std::string>, std::map<std::string, std::string>>,
           Route>
      merged;
  for (const auto& entry : entries) {
    for (const RoutePolicy& match : entry.policy.http_routes) {
      Route& route = merged
                         .try_emplace({match.path_regex, match.methods, match.headers},
                                      Route{match, PathSet(match.path_regex), {}, {}})
                         .first->second;
      route.targets.insert(entry.policy.target);
      route.sources.insert(entry.policy.sources.begin(), entry.policy.sources.end());
    }
  }
  std::vector<Route> out;
  for (auto& [key, route] : merged) out.push_back(std::move(route));
  return out;
}

bool methods_overlap(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return a.empty() || b.empty() ||
         std::find_first_of(a.begin(), a.end(), b.begin(), b.end()) != a.end();
}

bool headers_overlap(const RoutePolicy& a, const RoutePolicy& b) {
  return std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& header) {
    const auto at = b.headers.find(header.first);
    return at == b.headers.end() || PathSet(header.second).may_overlap(PathSet(at->second));
  });
}

bool may_overlap(const Route& a, const Route& b) {
  return methods_overlap(a.match.methods, b.match.methods) && a.paths.may_overlap(b.paths) &&
         headers_overlap(a.match, b.match);
}

void compare_overlaps(const Mesh& mesh, Differences& out) {
  std::map<ServiceIdentity, std::vector<model::TargetEntry>> by_destination;
  for (const auto& target : mesh.view.targets)
    if (auto entry = catalog::resolve_target(*target, mesh.view); !entry.policy.sources.empty())
      by_destination[entry.destination].push_back(std::move(entry));
  std::set<std::pair<smi::ObjectName, smi::ObjectName>> reported;
  for (const auto& [destination, entries] : by_destination) {
    const std::vector<Route> all = routes_to(entries);
    for (auto a = all.begin(); a != all.end(); ++a) {
      for (auto b = all.begin(); b != a; ++b) {
        if (a->sources == b->sources || !may_overlap(*a, *b)) continue;
        // The sources differ, so one route has a target that the other one does not have.
        const bool first = std::includes(b->targets.begin(), b->targets.end(), a->targets.begin(),
                                         a->targets.end());
        const Route& one = first ? *b : *a;
        const Route& other = first ? *a : *b;
        const auto own = *std::find_if(one.targets.begin(), one.targets.end(),
                                       [&](const auto& t) { return !other.targets.contains(t); });
        const auto theirs = *std::find_if(other.targets.begin(), other.targets.end(),
                                          [&](const auto& t) { return t != own; });
        if (!reported.insert(std::minmax(own, theirs)).second) continue;
        out.add(mesh.object({kinds::kTrafficTarget, own.ns, own.name}),
                {.verdict = Verdict::kMore,
                 .access = Access::kAllowed,
                 .field = "spec.rules",
                 .reason = fmt::format(
                     "its path {} may cover requests that TrafficTarget {} covers with {}: OSM "
                     "v1.2 applied one of the two, and refused the other's sources with 403; here "
                     "both count",
                     one.match.path_regex, theirs.str(), other.match.path_regex),
                 .remedy = "Check that the sources of both may send such requests. If not, narrow "
                           "the paths or methods until they have no request in common."});
      }
    }
  }
}

// ---- paths that are not in normal form

struct Concerned {
  std::set<std::string> matches;
  std::set<std::string> services;  // with HTTP, and without a choice
};

// Adds the matches of a rule that may accept paths in other forms.
void add_matches(const smi::TrafficTargetRule& rule, const smi::HttpRouteGroup& group,
                 Concerned& out) {
  for (const smi::HttpMatch& match : group.matches)
    if (std::find(rule.matches.begin(), rule.matches.end(), match.name) != rule.matches.end() &&
        match.path_regex != ".*" && may_accept_other_forms(match.path_regex))
      out.matches.insert(match.name);
}

std::set<std::string> undecided_services(const Mesh& mesh, const ServiceAccount& account) {
  std::set<std::string> out;
  for (const auto& service : services_of(mesh, account).services) {
    const auto& annotations = mesh.object(model::key_of(*service)).annotations;
    const bool http = std::any_of(service->ports.begin(), service->ports.end(),
                                  [](const auto& port) { return is_http(port.protocol); });
    if (http && !annotations.contains(std::string(kPathsAnnotation)))
      out.insert(service->name.str());
  }
  return out;
}

std::string first_field(const Object& group, const std::set<std::string>& matches) {
  const auto& list = list_at(map_at(*group.document, "spec"), "matches");
  for (std::size_t i = 0; i < list.size(); ++i)
    if (matches.contains(text_at(list[i], "name")))
      return fmt::format("spec.matches[{}].pathRegex", i);
  return "spec.matches";
}

void compare_paths(const Mesh& mesh, Differences& out) {
  std::map<smi::ObjectName, Concerned> groups;
  for (const auto& target : mesh.view.targets) {
    const auto services = undecided_services(mesh, target->destination);
    if (services.empty() || target->sources.empty()) continue;
    for (const smi::TrafficTargetRule& rule : target->rules) {
      const auto group = mesh.view.http_routes.find({target->name.ns, rule.name});
      if (rule.kind != smi::RouteKind::kHttpRouteGroup || !group) continue;
      Concerned found;
      add_matches(rule, *group, found);
      if (found.matches.empty()) continue;
      groups[group->name].matches.merge(found.matches);
      groups[group->name].services.insert(services.begin(), services.end());
    }
  }
  for (const auto& [name, concerned] : groups) {
    const Object& group = mesh.object({kinds::kHttpRouteGroup, name.ns, name.name});
    out.add(group,
            {.verdict = Verdict::kLess,
             .access = Access::kRefused,
             .field = first_field(group, concerned.matches),
             .reason = fmt::format(
                 "the path of {} accepts paths that are not in normal form, such as /a//b, /a/../b "
                 "and /a%2Fb: they get 403 here, and OSM v1.2 let them pass",
                 fmt::join(concerned.matches, ", ")),
             .remedy = fmt::format(
                 "Annotate Service {} with {}: unchecked to keep the meaning, or with normalize "
                 "or strict if clients send no such paths. The check accepts each of them.",
                 fmt::join(concerned.services, ", "), kPathsAnnotation)});
  }
}

}  // namespace

void compare_targets(const Mesh& mesh, Differences& out) {
  if (mesh.before.permissive) return;  // TrafficTargets have no effect, in neither of the two
  compare_tcp(mesh, out);
  compare_overlaps(mesh, out);
  compare_paths(mesh, out);
}

}  // namespace osm::inline v1::migrate
