#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "model/cluster_names.hpp"
#include "translate/class_view.hpp"
#include "translate/egress.hpp"
#include "translate/http_manager.hpp"
#include "translate/ingress.hpp"
#include "translate/input.hpp"
#include "translate/limits.hpp"
#include "translate/matchers.hpp"
#include "translate/pack_any.hpp"
#include "translate/rbac.hpp"
#include "translate/server_limits.hpp"

namespace osm::inline v1::translate {
namespace {

namespace route = envoy::config::route::v3;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;

constexpr std::uint32_t kNotFound = 404;
constexpr std::uint32_t kServiceUnavailable = 503;

route::RouteConfiguration empty_configuration(const std::string& name) {
  route::RouteConfiguration configuration;
  configuration.set_name(name);
  configuration.mutable_validate_clusters()->set_value(false);
  return configuration;
}

// Envoy refuses a route configuration in which a domain occurs twice: the first claim wins. Result:
// false if the virtual host has no domain left.
bool claim_domains(std::set<std::string>& taken, const std::vector<std::string>& domains,
                   route::VirtualHost& host) {
  for (const std::string& domain : domains)
    if (taken.insert(domain).second) host.add_domains(domain);
  return host.domains_size() > 0;
}

route::Route direct_response(std::uint32_t status) {
  route::Route out;
  out.mutable_match()->set_prefix("/");
  out.mutable_direct_response()->set_status(status);
  return out;
}

Encoding encoded(const route::RouteConfiguration& configuration,
                 const std::set<std::string>& clusters) {
  Encoding encoding{deterministic_bytes(pack_any(configuration)), {}};
  for (const std::string& cluster : clusters)
    encoding.references.push_back({XdsType::kCluster, cluster});
  return encoding;
}

// ---- outbound: from host name to service

// RetryPolicy in plain values.
struct Retries {
  std::string on;
  std::uint32_t count = 0;
  std::int64_t per_try_timeout = 0;  // milliseconds
  std::int64_t back_off = 0;         // milliseconds

  static std::optional<Retries> of(const RetryPolicy* policy) {
    if (policy == nullptr) return std::nullopt;
    return Retries{policy->retry_on, policy->num_retries, policy->per_try_timeout.count(),
                   policy->back_off_base_interval.count()};
  }
};

struct OutboundHost {
  ServiceName service;
  bool short_name = false;                // also by the name alone
  std::string cluster_domain;             // of the other names
  std::vector<Destination> destinations;  // ordered; empty: the service cannot be reached
  std::optional<Retries> retries{};
  IdleTime idle{};
};

// The longest pause is Envoy's own: ten times the base interval.
void set_retries(route::RouteAction& action, const std::optional<Retries>& retries) {
  if (!retries) return;
  auto& policy = *action.mutable_retry_policy();
  policy.set_retry_on(retries->on);
  policy.mutable_num_retries()->set_value(retries->count);
  set_milliseconds(*policy.mutable_per_try_timeout(), retries->per_try_timeout);
  set_milliseconds(*policy.mutable_retry_back_off()->mutable_base_interval(), retries->back_off);
}

route::Route outbound_route(const std::vector<Destination>& destinations,
                            const std::optional<Retries>& retries, const IdleTime& idle) {
  if (destinations.empty()) return direct_response(kServiceUnavailable);
  route::Route out;
  out.mutable_match()->set_prefix("/");
  auto& action = *out.mutable_route();
  action.mutable_timeout();  // 0 s: no limit; the default of 15 s would cut streams
  set_idle_time(action, idle);
  set_retries(action, retries);
  if (destinations.size() == 1) {
    action.set_cluster(destinations.front().cluster);
    return out;
  }
  for (const Destination& destination : destinations) {
    auto& weighted = *action.mutable_weighted_clusters()->add_clusters();
    weighted.set_name(destination.cluster);
    weighted.mutable_weight()->set_value(destination.weight);
  }
  return out;
}

struct OutboundRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "outbound-routes";

  Port port{};
  OutboundHost host;

  // A host that is not the Service's gets 404, Envoy's answer without a virtual host.
  Encoding encode(const std::string& name) const {
    auto configuration = empty_configuration(name);
    const auto names =
        domains_of(model::host_names(host.service, host.short_name, host.cluster_domain), {port});
    auto& out = *configuration.add_virtual_hosts();
    out.set_name("outbound_virtual-host|" + service_fqdn(host.service));
    out.mutable_domains()->Assign(names.begin(), names.end());
    *out.add_routes() = outbound_route(host.destinations, host.retries, host.idle);
    std::set<std::string> clusters;
    for (const Destination& destination : host.destinations) clusters.insert(destination.cluster);
    return encoded(configuration, clusters);
  }
};

// Routes of a headless service. The dialled address selects the pod, whatever the host is. If there
// is a split, the service's own names mean the split.
struct HeadlessRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "headless-routes";

  ServiceName service;
  std::vector<std::string> names;  // split only
  std::vector<Destination> split;
  std::string pod;  // the cluster of the dialled pod
  std::optional<Retries> retries{};
  IdleTime idle{};

  Encoding encode(const std::string& name) const {
    auto configuration = empty_configuration(name);
    std::set<std::string> clusters{pod};
    for (const Destination& destination : split) clusters.insert(destination.cluster);
    if (!names.empty()) {
      auto& apex = *configuration.add_virtual_hosts();
      apex.set_name("outbound_virtual-host|" + service_fqdn(service));
      apex.mutable_domains()->Assign(names.begin(), names.end());
      *apex.add_routes() = outbound_route(split, retries, idle);
    }
    auto& pods = *configuration.add_virtual_hosts();
    pods.set_name("outbound_virtual-host|*." + service_fqdn(service));
    pods.add_domains("*");
    *pods.add_routes() = outbound_route({{pod, 0}}, retries, idle);
    return encoded(configuration, clusters);
  }
};

void add_headless(const ClassView& view, const model::ServiceEntry& entry, const MeshService& port,
                  bool short_name, std::vector<InputPtr>& inputs) {
  HeadlessRouteValues values{entry.name,
                             {},
                             {},
                             {},
                             Retries::of(view.retry_of(entry.name)),
                             idle_time(view.limits_of(entry.name), port.protocol)};
  if (entry.split) {
    values.names = domains_of(
        model::host_names(entry.name, short_name, view.snapshot.config.proxy.cluster_domain),
        {port.port});
    values.split = destinations_of(view, entry, port);
  }
  for (const DialledPods& pods : dialled_pods(entry, port)) {
    values.pod = dialled_cluster_name(entry, pods.port);
    inputs.push_back(make_input(outbound_route_name(entry, pods), values));
  }
}

void add_outbound_routes(const ClassView& view, std::vector<InputPtr>& inputs) {
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    const bool short_name = entry->name.ns == view.proxy_class.identity.ns;
    for (const MeshService& port : entry->ports) {
      if (!is_http(port.protocol)) continue;
      if (entry->headless) {
        add_headless(view, *entry, port, short_name, inputs);
        continue;
      }
      OutboundHost host{entry->name,
                        short_name,
                        view.snapshot.config.proxy.cluster_domain,
                        destinations_of(view, *entry, port),
                        Retries::of(view.retry_of(entry->name)),
                        idle_time(view.limits_of(entry->name), port.protocol)};
      inputs.push_back(make_input(outbound_route_name(*entry, port),
                                  OutboundRouteValues{port.port, std::move(host)}));
    }
  }
}

// ---- inbound: 404 or the workload; RBAC authorizes

struct InboundHost {
  ServiceName service;  // the workload's own service, or the apex of a split to it
  std::vector<Port> ports;
  std::string cluster;
  bool checks_paths = true;  // false: HttpPaths::kUnchecked
  RequestLimits limits{};
};

// The matches of the routes, each with one method at most.
std::set<PathMatch> matches_of(const Authorization& authorization) {
  std::set<PathMatch> matches;
  if (authorization.permissive) matches.emplace();
  for (const Grant& grant : authorization.grants)
    for (const PathMatch& route : grant.routes)
      for (PathMatch& match : route.by_method()) matches.insert(std::move(match));
  const auto all = std::find_if(matches.begin(), matches.end(), [](const PathMatch& match) {
    return pattern_of(match.path).kind == Pattern::Kind::kAny && match.methods.empty() &&
           match.headers.empty();
  });
  if (all != matches.end()) matches = std::set<PathMatch>{*all};
  return matches;
}

route::Route inbound_route(const PathMatch& match, const InboundHost& host) {
  route::Route out;
  set_match(*out.mutable_match(), match);
  out.mutable_route()->set_cluster(host.cluster);
  out.mutable_route()->mutable_timeout();  // none: the client's timeout decides
  set_idle_time(*out.mutable_route(), host.limits.idle);
  return out;
}

// One route of a path that has its own limit, whatever else policies match: RBAC authorizes, and
// copies for each of their matches would have a bucket each.
route::Route limited_route(const HttpRouteRateLimit& path, const InboundHost& host) {
  route::Route out = inbound_route({path.path_regex, {}, {}}, host);
  host.limits.replace_on(out, path);
  return out;
}

// Requests without any policy get 404. RBAC is off on this one route, which answers by itself and
// leads nowhere; otherwise the virtual host's rules would turn the answer into 403.
route::Route not_found_route() {
  route::Route out = direct_response(kNotFound);
  (*out.mutable_typed_per_filter_config())[kHttpRbacFilter] = pack_any(http_rbac::RBACPerRoute());
  return out;
}

struct InboundRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "inbound-routes";

  std::vector<InboundHost> hosts;  // ordered by service
  Authorization authorization;
  bool any_host = false;       // a headless service: matches any host
  std::string cluster_domain;  // of the hosts' names

  Encoding encode(const std::string& name) const {
    const std::set<PathMatch> matches = matches_of(authorization);
    const auto rbac = [&](MatchedPaths paths) {
      http_rbac::RBACPerRoute rules;
      *rules.mutable_rbac()->mutable_rules() = rbac_rules(authorization, paths);
      return pack_any(rules);
    };
    const google::protobuf::Any checked = rbac(MatchedPaths::kNormalForm);

    auto configuration = empty_configuration(name);
    std::set<std::string> taken, clusters;
    for (const InboundHost& host : hosts) {
      route::VirtualHost out;
      out.set_name("inbound_virtual-host|" + service_fqdn(host.service));
      if (any_host)
        out.add_domains("*");
      else if (!claim_domains(
                   taken,
                   domains_of(model::host_names(host.service, true, cluster_domain), host.ports),
                   out))
        continue;
      if (!matches.empty())
        for (const HttpRouteRateLimit& path : host.limits.paths)
          *out.add_routes() = limited_route(path, host);
      for (const PathMatch& match : matches) *out.add_routes() = inbound_route(match, host);
      *out.add_routes() = not_found_route();
      (*out.mutable_typed_per_filter_config())[kHttpRbacFilter] =
          host.checks_paths ? checked : rbac(MatchedPaths::kAny);
      host.limits.add_to(out);
      if (host.limits.local) {
        auto& not_found = *out.mutable_routes(out.routes_size() - 1);
        (*not_found.mutable_typed_per_filter_config())[kHttpRateLimitFilter] = no_rate_limit();
      }
      if (!matches.empty()) clusters.insert(host.cluster);
      *configuration.add_virtual_hosts() = std::move(out);
    }
    if (any_host) return encoded(configuration, clusters);
    auto& unknown_host = *configuration.add_virtual_hosts();
    unknown_host.set_name("inbound_virtual-host|*");
    unknown_host.add_domains("*");
    *unknown_host.add_routes() = not_found_route();
    return encoded(configuration, clusters);
  }
};

void add_host(const ClassView& view, const ServiceName& service, const ServedPort& served,
              std::map<ServiceName, InboundHost>& hosts) {
  const MeshService& own = served.port;
  auto [at, added] = hosts.try_emplace(service);
  InboundHost& host = at->second;
  // Under its own name a service uses its own cluster; as an apex, that of its first backend.
  if (added || service == own.name) host.cluster = own.local_cluster_name().str();
  host.service = service;
  // An apex has its own limits, whichever backend serves it. A gRPC port among others decides: its
  // streams may be silent.
  if (added || own.protocol == Protocol::kGrpc)
    host.limits = RequestLimits::of(view, service, own.protocol);
  host.checks_paths = (!added && host.checks_paths) || served.http_paths != HttpPaths::kUnchecked;
  const auto place = std::lower_bound(host.ports.begin(), host.ports.end(), own.port);
  if (place == host.ports.end() || *place != own.port) host.ports.insert(place, own.port);
}

void add_inbound_routes(const ClassView& view, std::vector<InputPtr>& inputs) {
  std::map<Port, std::map<ServiceName, InboundHost>> by_target;
  for (const ServedPort& served : view.served) {
    const MeshService& own = served.port;
    if (!is_http(own.protocol) || own.target_port == Port{0}) continue;
    if (served.headless) {
      InboundHost host{own.name,
                       {},
                       own.local_cluster_name().str(),
                       served.http_paths != HttpPaths::kUnchecked,
                       RequestLimits::of(view, own.name, own.protocol)};
      inputs.push_back(
          make_input(inbound_route_name(served),
                     InboundRouteValues{
                         {std::move(host)}, http_authorization(view, own.target_port), true, {}}));
      continue;
    }
    auto& hosts = by_target[own.target_port];
    add_host(view, own.name, served, hosts);
    for (const ServiceName& apex : served.apexes) add_host(view, apex, served, hosts);
  }
  for (auto& [target, hosts] : by_target) {
    InboundRouteValues values{
        {}, http_authorization(view, target), false, view.snapshot.config.proxy.cluster_domain};
    for (auto& [service, host] : hosts) values.hosts.push_back(std::move(host));
    inputs.push_back(make_input(inbound_route_name(target), std::move(values)));
  }
}

}  // namespace

std::vector<InputPtr> route_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  add_outbound_routes(view, inputs);
  add_inbound_routes(view, inputs);
  for (InputPtr& input : egress_route_inputs(view)) inputs.push_back(std::move(input));
  add_ingress_routes(view, inputs);
  return inputs;
}

}  // namespace osm::inline v1::translate
