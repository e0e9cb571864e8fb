#include "translate/egress.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "envoy/config/route/v3/route.pb.h"
#include "model/egress.hpp"
#include "model/path_forms.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace listener = envoy::config::listener::v3;
namespace route = envoy::config::route::v3;
using model::EgressGrant;

constexpr std::uint32_t kNotFound = 404;

bool is_tcp(EgressProtocol protocol) {
  return protocol == EgressProtocol::kTcp || protocol == EgressProtocol::kTcpServerFirst;
}

// One grant at one of its ports.
struct Opening {
  const EgressGrant* grant;
  EgressProtocol protocol;
};
using Openings = std::vector<Opening>;

// Envoy takes the chain of the narrowest network and tries no wider one. So each network has a
// chain with all that the grants of the wider ones allow too.
class PortPlanner {
 public:
  PortPlanner(Port port, EgressPlan& plan) : port_(port), plan_(plan) {}

  void add(const Openings& openings) {
    std::set<std::optional<Ipv4Network>> networks;  // nullopt: any
    for (const Opening& opening : openings) {
      if (!opening.grant->networks) networks.insert(std::nullopt);
      if (opening.grant->networks)
        networks.insert(opening.grant->networks->begin(), opening.grant->networks->end());
    }
    // Networks that the same openings reach share their chains. Keys are places in `openings`.
    std::map<std::vector<std::size_t>, std::vector<std::string>> groups;
    for (const auto& network : networks) {
      std::vector<std::size_t> reaching;
      for (std::size_t i = 0; i < openings.size(); ++i)
        if (reaches(*openings[i].grant, network)) reaching.push_back(i);
      auto& group = groups[std::move(reaching)];
      if (network) group.push_back(model::text_of(*network));
    }
    for (const auto& [reaching, texts] : groups) {
      Openings members;
      for (const std::size_t place : reaching) members.push_back(openings[place]);
      add_group(members, texts);
    }
  }

 private:
  static bool reaches(const EgressGrant& grant, const std::optional<Ipv4Network>& network) {
    if (!grant.networks) return true;
    return network && std::any_of(grant.networks->begin(), grant.networks->end(),
                                  [&](const auto& outer) { return model::holds(outer, *network); });
  }

  // TCP allows every connection, so that the other protocols of the same networks add nothing.
  void add_group(const Openings& members, const std::vector<std::string>& networks) {
    Openings tcp, https, http;
    for (const Opening& member : members)
      (is_tcp(member.protocol)                     ? tcp
       : member.protocol == EgressProtocol::kHttps ? https
                                                   : http)
          .push_back(member);
    const std::string at =
        std::to_string(number(port_)) + (networks.empty() ? "" : '.' + networks.front());
    if (!tcp.empty()) {
      plan_.chains.push_back({"egress-tcp." + at, port_, networks, EgressProtocol::kTcp});
      plan_.chains.back().cluster = dialled(std::to_string(number(port_)), setting_of(tcp));
      return;
    }
    add_https(https, networks, at);
    add_http(http, networks, at);
  }

  void add_https(const Openings& openings, const std::vector<std::string>& networks,
                 const std::string& at) {
    const auto add_chain = [&](const std::string& host, std::string cluster) {
      const std::string name = host.empty() ? at : host + ':' + at;
      plan_.chains.push_back(
          {"egress-https." + name, port_, networks, EgressProtocol::kHttps, host});
      plan_.chains.back().cluster = std::move(cluster);
    };
    for (const auto& [host, holders] : by_host(openings)) {
      const bool anywhere = std::any_of(holders.begin(), holders.end(), [](const Opening& holder) {
        return !holder.grant->networks;
      });
      add_chain(host, cluster_of(host, anywhere, setting_of(holders)));
    }
    Openings any_name;
    std::copy_if(openings.begin(), openings.end(), std::back_inserter(any_name),
                 [](const Opening& opening) { return !opening.grant->hosts; });
    if (!any_name.empty())
      add_chain("", dialled(std::to_string(number(port_)), setting_of(any_name)));
  }

  void add_http(const Openings& openings, const std::vector<std::string>& networks,
                const std::string& at) {
    std::vector<EgressVirtualHost> hosts;
    for (const auto& [host, holders] : by_host(openings))
      hosts.push_back({host, routes_of(host, holders)});
    if (hosts.empty()) return;
    const std::string routes = "rds-egress." + at;
    plan_.chains.push_back(
        {"egress-http." + at, port_, networks, EgressProtocol::kHttp, "", routes});
    plan_.routes.emplace(routes, std::move(hosts));
  }

  // The hosts on this port, each with the openings that hold it. Envoy takes the narrowest name and
  // tries no wider one.
  std::map<std::string, Openings> by_host(const Openings& openings) const {
    std::map<std::string, std::set<std::size_t>> written;  // places in `openings`
    for (std::size_t place = 0; place < openings.size(); ++place)
      if (const auto& hosts = openings[place].grant->hosts)
        for (const EgressHost& host : *hosts)
          if (!host.port || *host.port == port_) written[host.name].insert(place);
    std::map<std::string, Openings> out;
    for (const auto& [name, places] : written) {
      std::set<std::size_t> holders = places;
      for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
        if (const auto wider = written.find('*' + name.substr(dot)); wider != written.end())
          holders.insert(wider->second.begin(), wider->second.end());
      for (const std::size_t place : holders) out[name].push_back(openings[place]);
    }
    return out;
  }

  std::vector<EgressRoute> routes_of(const std::string& host, const Openings& holders) {
    const EgressGrant* setting = setting_of(holders);
    std::set<PathMatch> taken;
    std::vector<EgressRoute> out;
    for (const Opening& holder : holders) {
      const bool anywhere = !holder.grant->networks;
      const std::vector<RoutePolicy> anything(1);
      for (const RoutePolicy& policy : holder.grant->routes.value_or(anything))
        for (const PathMatch& match : PathMatch::of(policy).by_method())
          if (taken.insert(match).second)
            out.push_back({match, cluster_of(host, anywhere, setting)});
    }
    return out;
  }

  // The first grant with an UpstreamTrafficSetting; null: there is none.
  static const EgressGrant* setting_of(const Openings& openings) {
    const auto first = std::find_if(openings.begin(), openings.end(), [](const Opening& opening) {
      return !opening.grant->setting.empty();
    });
    return first == openings.end() ? nullptr : first->grant;
  }

  // A full host name without addresses is looked up by the sidecar: the application cannot reach
  // another server by a false name. Otherwise the connection goes where the application dials.
  std::string cluster_of(const std::string& host, bool anywhere, const EgressGrant* setting) {
    const std::string at = host + ':' + std::to_string(number(port_));
    if (!anywhere || host.starts_with("*.")) return dialled(at, setting);
    const std::string name = setting ? at + '|' + setting->setting : at;
    plan_.clusters.try_emplace(
        name, EgressCluster{host, port_, setting ? setting->connections : ConnectionSettings()});
    return name;
  }

  std::string dialled(const std::string& at, const EgressGrant* setting) {
    const std::string name =
        setting ? at + "|original-dst|" + setting->setting : std::string(kPassthroughCluster);
    plan_.clusters.try_emplace(
        name, EgressCluster{"", Port{}, setting ? setting->connections : ConnectionSettings()});
    return name;
  }

  const Port port_;
  EgressPlan& plan_;
};

// ---- routes

// Envoy adds "x-forwarded-proto: http" to requests that have none. The application's own "https"
// stays.
constexpr const char* kForwardedProto = "x-forwarded-proto";

void add_route(const EgressRoute& from, route::VirtualHost& out) {
  route::Route made;
  set_match(*made.mutable_match(), from.match);
  made.mutable_route()->set_cluster(from.cluster);
  made.mutable_route()->mutable_timeout();  // 0 s: no limit; the default of 15 s would cut streams
  auto& without = *out.add_routes() = made;
  *without.mutable_match()->add_headers() =
      header_matcher(kForwardedProto, {Pattern::Kind::kExact, "http"});
  without.add_request_headers_to_remove(kForwardedProto);
  *out.add_routes() = std::move(made);
}

// True if the route's path could match a path in another form, which the server reads as another
// path.
bool matches_other_forms(const EgressRoute& one) {
  const Pattern path = pattern_of(one.match.path);
  return path.kind == Pattern::Kind::kPrefix || path.kind == Pattern::Kind::kRegex;
}

struct EgressRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "egress-routes";

  Port port{};
  std::vector<EgressVirtualHost> hosts;  // ordered by host

  Encoding encode(const std::string& name) const {
    route::RouteConfiguration configuration;
    configuration.set_name(name);
    configuration.mutable_validate_clusters()->set_value(false);
    // Envoy adds it if the application says by x-forwarded-for that its client is near.
    configuration.add_request_headers_to_remove("x-envoy-internal");
    std::set<std::string> clusters;
    for (const EgressVirtualHost& host : hosts) {
      auto& out = *configuration.add_virtual_hosts();
      out.set_name("egress_virtual-host|" + host.host);
      out.add_domains(host.host);
      out.add_domains(host.host + ':' + std::to_string(number(port)));
      add_routes(host, out);
      for (const EgressRoute& one : host.routes) clusters.insert(one.cluster);
    }
    Encoding encoding{deterministic_bytes(pack_any(configuration)), {}};
    for (const std::string& cluster : clusters)
      encoding.references.push_back({XdsType::kCluster, cluster});
    return encoding;
  }

  static void add_routes(const EgressVirtualHost& host, route::VirtualHost& out) {
    for (const EgressRoute& one : host.routes)
      if (!matches_other_forms(one)) add_route(one, out);
    if (std::none_of(host.routes.begin(), host.routes.end(), matches_other_forms)) return;
    auto& other_forms = *out.add_routes();
    other_forms.mutable_match()->mutable_safe_regex()->set_regex(model::kOtherPathForms);
    other_forms.mutable_direct_response()->set_status(kNotFound);
    for (const EgressRoute& one : host.routes)
      if (matches_other_forms(one)) add_route(one, out);
  }
};

void add_network(const std::string& text, listener::FilterChainMatch& match) {
  const auto slash = text.find('/');
  auto& range = *match.add_prefix_ranges();
  range.set_address_prefix(text.substr(0, slash));
  range.mutable_prefix_len()->set_value(
      static_cast<std::uint32_t>(std::stoul(text.substr(slash + 1))));
}

}  // namespace

EgressPlan egress_plan(const ClassView& view) {
  EgressPlan plan;
  std::map<Port, Openings> by_port;
  if (view.client)
    for (const EgressGrant& grant : view.client->egress)
      for (const EgressPort& port : grant.ports)
        by_port[port.number].push_back({&grant, port.protocol});
  for (const auto& [port, openings] : by_port) PortPlanner(port, plan).add(openings);
  std::sort(plan.chains.begin(), plan.chains.end(),
            [](const EgressChain& a, const EgressChain& b) { return a.name < b.name; });
  if (view.snapshot.config.proxy.egress) {
    // Everything passes without these chains. Their clusters stay: after global egress is turned
    // on, draining chains still send requests of kept connections there. So in a mesh that always
    // has it on, an Egress costs its sources' proxies as much as without it.
    plan.chains.clear();
    plan.routes.clear();
    plan.clusters.try_emplace(kPassthroughCluster);
  }
  return plan;
}

std::vector<Port> ports_with_tls_names(const std::vector<EgressChain>& chains) {
  std::set<Port> ports;
  for (const EgressChain& chain : chains)
    if (chain.protocol == EgressProtocol::kHttps) ports.insert(chain.port);
  return {ports.begin(), ports.end()};
}

// A connection without TLS is "raw_buffer" also where nothing looked for TLS. So a port that gets
// https later does not change its HTTP chain, which would drain connections.
void set_match(const EgressChain& chain, listener::FilterChainMatch& match) {
  match.mutable_destination_port()->set_value(number(chain.port));
  for (const std::string& network : chain.networks) add_network(network, match);
  if (chain.protocol == EgressProtocol::kHttp) match.set_transport_protocol("raw_buffer");
  if (chain.protocol == EgressProtocol::kHttps) match.set_transport_protocol("tls");
  if (!chain.tls_name.empty()) match.add_server_names(chain.tls_name);
}

void use_only_on(const std::vector<Port>& ports, listener::ListenerFilter& filter) {
  auto& used = *filter.mutable_filter_disabled()->mutable_not_match();
  for (const Port port : ports) {
    auto& rule = ports.size() == 1 ? used : *used.mutable_or_match()->add_rules();
    rule.mutable_destination_port_range()->set_start(number(port));
    rule.mutable_destination_port_range()->set_end(number(port) + 1);
  }
}

std::vector<InputPtr> egress_route_inputs(const ClassView& view) {
  EgressPlan plan = egress_plan(view);
  std::vector<InputPtr> inputs;
  for (const EgressChain& chain : plan.chains)
    if (!chain.routes.empty())
      inputs.push_back(make_input(
          chain.routes, EgressRouteValues{chain.port, std::move(plan.routes[chain.routes])}));
  return inputs;
}

}  // namespace osm::inline v1::translate
