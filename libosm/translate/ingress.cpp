#include "translate/ingress.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "envoy/config/rbac/v3/rbac.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "translate/input.hpp"
#include "translate/matchers.hpp"
#include "translate/pack_any.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace listener = envoy::config::listener::v3;
namespace rbac = envoy::config::rbac::v3;
namespace route = envoy::config::route::v3;

// The URI of every workload, in any trust domain.
constexpr const char* kAnyWorkload = "spiffe://[^/]+/ns/.*";

// "rds-ingress.<target port>.<fqdn>"
std::string ingress_route_name(const ServedPort& served) {
  return "rds-ingress." + std::to_string(number(served.port.target_port)) + '.' +
         served.port.fqdn();
}

// Calls visit(served, callers) once for each Service and target port that admits callers.
template <class Visit>
void for_each_ingress(const ClassView& view, Visit visit) {
  std::map<std::pair<ServiceName, Port>, const ServedPort*> found;
  for (const ServedPort& served : view.served) {
    if (view.ingress_of(served) == nullptr) continue;
    const auto [at, added] =
        found.try_emplace({served.port.name, served.port.target_port}, &served);
    // Streams need the chain of gRPC, where the authorizer waits for no body.
    if (!added && served.port.protocol == Protocol::kGrpc) at->second = &served;
  }
  for (const auto& [key, served] : found) visit(*served, *view.ingress_of(*served));
}

// ---- routes

struct IngressRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "ingress-routes";

  ServiceName service;
  std::string cluster;
  std::optional<std::vector<std::string>> networks{};    // absent: any address
  std::optional<std::vector<std::string>> principals{};  // absent: no certificate is asked for
  RequestLimits limits{};

  Encoding encode(const std::string& name) const {
    route::RouteConfiguration configuration;
    configuration.set_name(name);
    configuration.mutable_validate_clusters()->set_value(false);
    auto& host = *configuration.add_virtual_hosts();
    host.set_name("ingress_virtual-host|" + service.str());
    host.add_domains("*");
    auto& overrides = *host.mutable_typed_per_filter_config();
    envoy::extensions::filters::http::rbac::v3::RBACPerRoute rules;
    *rules.mutable_rbac()->mutable_rules() = admission();
    overrides[kHttpRbacFilter] = pack_any(rules);
    limits.add_to(host);
    for (const HttpRouteRateLimit& path : limits.paths) {
      auto& limited = add_route(host);
      set_path(*limited.mutable_match(), pattern_of(path.path_regex));
      limits.replace_on(limited, path);
    }
    add_route(host).mutable_match()->set_prefix("/");
    return {deterministic_bytes(pack_any(configuration)), {{XdsType::kCluster, cluster}}};
  }

 private:
  route::Route& add_route(route::VirtualHost& host) const {
    auto& out = *host.add_routes();
    out.mutable_route()->set_cluster(cluster);
    out.mutable_route()->mutable_timeout();  // none: the client's timeout decides
    set_idle_time(*out.mutable_route(), limits.idle);
    return out;
  }

  // Rules without policies admit nobody.
  rbac::RBAC admission() const {
    rbac::RBAC rules;
    rules.set_action(rbac::RBAC::ALLOW);
    if (!networks && !principals) return rules;
    if ((networks && networks->empty()) || (principals && principals->empty())) return rules;
    rbac::Policy& policy = (*rules.mutable_policies())["ingress"];
    policy.add_permissions()->set_any(true);
    auto& caller = *policy.add_principals()->mutable_and_ids();
    if (networks) add_networks(*caller.add_ids()->mutable_or_ids());
    if (principals) {
      auto& names = *caller.add_ids()->mutable_or_ids();
      for (const std::string& name : *principals)
        names.add_ids()->mutable_authenticated()->mutable_principal_name()->set_exact(name);
      // A workload's certificate has a DNS name, too, which must not make it a gateway.
      caller.add_ids()
          ->mutable_not_id()
          ->mutable_authenticated()
          ->mutable_principal_name()
          ->mutable_safe_regex()
          ->set_regex(kAnyWorkload);
    }
    return rules;
  }

  // The connection's own address: a caller writes x-forwarded-for.
  void add_networks(rbac::Principal::Set& out) const {
    for (const std::string& network : *networks) {
      const auto slash = network.find('/');
      auto& range = *out.add_ids()->mutable_direct_remote_ip();
      range.set_address_prefix(network.substr(0, slash));
      std::uint32_t bits = 0;
      std::from_chars(network.data() + slash + 1, network.data() + network.size(), bits);
      range.mutable_prefix_len()->set_value(bits);
    }
  }
};

// ---- chains

// Matches that no chain has claimed yet: port, TLS, server name ("": any).
class Matches {
 public:
  // False if plain text of the port is taken.
  bool claim_plain(Port port) { return taken_.emplace(port, false, "").second; }

  // The server names that are left; nullopt: none.
  std::optional<std::vector<std::string>> claim_tls(Port port, std::vector<std::string> names) {
    if (names.empty()) {
      if (!taken_.emplace(port, true, "").second) return std::nullopt;
      return names;
    }
    std::erase_if(
        names, [&](const std::string& name) { return !taken_.emplace(port, true, name).second; });
    if (names.empty()) return std::nullopt;
    return names;
  }

 private:
  std::set<std::tuple<Port, bool, std::string>> taken_;
};

// The server names of the port's mesh chains.
std::vector<std::string> mesh_names(const ClassView& view, Port target_port) {
  std::set<std::string> names;
  for (const ServedPort& served : view.served)
    if (served.port.target_port == target_port) names.insert(served.port.fqdn());
  return {names.begin(), names.end()};
}

}  // namespace

std::string IngressChain::name() const {
  return "ingress_" + service.str() + '_' + std::to_string(number(target_port)) +
         (tls ? "_https" : "_http") + (for_mesh_names ? "_mesh-names" : "");
}

std::vector<IngressChain> ingress_chains(const ClassView& view) {
  std::vector<IngressChain> chains;
  std::vector<IngressChain> for_mesh_names;  // they claim after those that name hosts
  Matches matches;
  for_each_ingress(view, [&](const ServedPort& served, const model::IngressPort& callers) {
    IngressChain chain{served.port.name,           served.port.target_port,
                       served.port.protocol,       {served.http_paths, served.header_names},
                       ingress_route_name(served), callers.tls.has_value()};
    chain.limits = ConnectionLimits::of(view, chain.service);
    chain.limiters = http_limiters(view, chain.service, {});
    if (callers.asks_for_certificate()) chain.principals = callers.principals;
    if (!chain.tls) {
      if (matches.claim_plain(chain.target_port)) chains.push_back(std::move(chain));
      return;
    }
    auto names = matches.claim_tls(chain.target_port, callers.tls->sni_hosts);
    if (!names) return;
    chain.server_names = *std::move(names);
    chains.push_back(chain);
    if (!chain.server_names.empty()) return;
    chain.for_mesh_names = true;
    for_mesh_names.push_back(std::move(chain));
  });
  for (IngressChain& chain : for_mesh_names) {
    auto names = matches.claim_tls(chain.target_port, mesh_names(view, chain.target_port));
    if (!names) continue;
    chain.server_names = *std::move(names);
    chains.push_back(std::move(chain));
  }
  std::sort(chains.begin(), chains.end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  return chains;
}

listener::FilterChain filter_chain_of(const IngressChain& chain, const TlsSettings& settings,
                                      const InboundHttp& http, const AccessLogs& logs,
                                      Encoding& encoding) {
  listener::FilterChain out;
  out.set_name(chain.name());
  auto& match = *out.mutable_filter_chain_match();
  match.mutable_destination_port()->set_value(number(chain.target_port));
  match.set_transport_protocol(chain.tls ? "tls" : "raw_buffer");
  for (const std::string& name : chain.server_names) match.add_server_names(name);
  if (chain.tls) {
    out.mutable_transport_socket()->set_name(chain.name());
    *out.mutable_transport_socket()->mutable_typed_config() =
        ingress_tls(settings, chain.protocol, chain.principals);
  }
  chain.limits.add_to(out, encoding);
  *out.add_filters() =
      ingress_http_manager(chain.routes, chain.protocol, chain.form, http, chain.limiters, logs);
  add_references(chain.limiters, encoding);
  return out;
}

void add_ingress_routes(const ClassView& view, std::vector<InputPtr>& inputs) {
  for_each_ingress(view, [&](const ServedPort& served, const model::IngressPort& callers) {
    IngressRouteValues values{served.port.name, served.port.local_cluster_name().str(),
                              callers.networks};
    if (callers.asks_for_certificate()) values.principals = callers.principals;
    values.limits = RequestLimits::of(view, served.port.name, served.port.protocol);
    inputs.push_back(make_input(ingress_route_name(served), std::move(values)));
  });
}

}  // namespace osm::inline v1::translate
