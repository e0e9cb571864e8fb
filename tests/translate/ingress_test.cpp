// Chains for gateways take no sidecar's connection; addresses and names are checked in routes, and
// an empty list admits nobody.
#include <algorithm>

#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::listener::v3::FilterChain;
using envoy::extensions::filters::http::rbac::v3::RBACPerRoute;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
using envoy::extensions::transport_sockets::tls::v3::SubjectAltNameMatcher;

namespace {

using Texts = std::vector<std::string>;

const std::string kRoutes = "rds-ingress.14001.server.server.svc.cluster.local";

model::IngressPort plain(std::optional<Texts> networks) {
  return {.origin = {}, .tls = {}, .networks = std::move(networks), .principals = {}};
}
model::IngressPort proven(Texts principals, Texts hosts = {}) {
  return {.origin = {},
          .tls = IngressTls{true, std::move(hosts)},
          .networks = {},
          .principals = std::move(principals)};
}

Mesh with_ingress(const model::IngressPort& callers, Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  auto entry = server_entry(protocol);
  entry.ingress.emplace(Port{14001}, callers);
  mesh.put(entry);
  return mesh;
}

// The chains of the server's listener behind its mesh chain.
std::vector<FilterChain> chains(const Mesh& mesh, Protocol protocol = Protocol::kHttp) {
  const auto listener = mesh.listener(server_class(protocol), "inbound-listener");
  std::vector<FilterChain> out(listener.filter_chains().begin() + 1,
                               listener.filter_chains().end());
  return out;
}

DownstreamTlsContext tls_of(const FilterChain& chain) {
  return unpack<DownstreamTlsContext>(chain.transport_socket().typed_config());
}

envoy::config::rbac::v3::RBAC admission(const Mesh& mesh) {
  const auto host = mesh.routes(server_class(), kRoutes).virtual_hosts(0);
  return unpack<RBACPerRoute>(host.typed_per_filter_config().at("http_rbac")).rbac().rules();
}

}  // namespace

TEST_SUITE("translate.ingress") {
  TEST_CASE("a plain-text chain takes no TLS, and the mesh chain stays equal") {
    const Mesh mesh = with_ingress(plain(Texts{"10.0.0.0/8"}));
    const auto all = chains(mesh);
    REQUIRE(all.size() == 1);
    CHECK(all[0].name() == "ingress_server/server_14001_http");
    CHECK_FALSE(all[0].has_transport_socket());
    const auto& match = all[0].filter_chain_match();
    CHECK(match.destination_port().value() == 14001);
    CHECK(match.transport_protocol() == "raw_buffer");
    CHECK(match.source_prefix_ranges_size() == 0);  // a gateway that comes changes no chain
    const auto before = worked_example().listener(server_class(), "inbound-listener");
    const auto after = mesh.listener(server_class(), "inbound-listener");
    CHECK(after.filter_chains(0).SerializeAsString() ==
          before.filter_chains(0).SerializeAsString());
  }

  TEST_CASE("gateways that come and go change the routes, and not the listener") {
    const auto one = with_ingress(plain(Texts{"10.0.0.1/32"}));
    const auto two = with_ingress(plain(Texts{"10.0.0.1/32", "10.0.0.2/32"}));
    CHECK(one.encoded(server_class(), XdsType::kListener, "inbound-listener")->hash ==
          two.encoded(server_class(), XdsType::kListener, "inbound-listener")->hash);
    CHECK(one.encoded(server_class(), XdsType::kRoute, kRoutes)->hash !=
          two.encoded(server_class(), XdsType::kRoute, kRoutes)->hash);
  }

  TEST_CASE("addresses are those of the connection, and an empty list admits nobody") {
    const auto rules = admission(with_ingress(plain(Texts{"10.0.0.0/8", "10.1.2.3/32"})));
    CHECK(rules.action() == envoy::config::rbac::v3::RBAC::ALLOW);
    const auto& policy = rules.policies().at("ingress");
    REQUIRE(policy.principals_size() == 1);
    REQUIRE(policy.principals(0).and_ids().ids_size() == 1);
    const auto& ranges = policy.principals(0).and_ids().ids(0).or_ids();
    REQUIRE(ranges.ids_size() == 2);
    CHECK(ranges.ids(0).direct_remote_ip().address_prefix() == "10.0.0.0");
    CHECK(ranges.ids(0).direct_remote_ip().prefix_len().value() == 8);
    CHECK(ranges.ids(1).direct_remote_ip().prefix_len().value() == 32);
    for (const auto& nobody :
         {plain(Texts{}), plain(std::nullopt), proven({}),
          model::IngressPort{
              .origin = {}, .tls = IngressTls{false, {}}, .networks = {}, .principals = {}},
          model::IngressPort{.origin = {},
          .tls = IngressTls{true, {}},
          .networks = Texts{},
          .principals = {"a.edge"}}}) {
      const auto closed = admission(with_ingress(nobody));
      CHECK(closed.action() == envoy::config::rbac::v3::RBAC::ALLOW);
      CHECK(closed.policies().empty());
    }
  }

  TEST_CASE("a certificate has one of exactly these names, and is no workload's") {
    auto callers = proven({"a.edge", "spiffe://cluster.local/osm/gateway/b"}, {"shop.example"});
    callers.networks = Texts{"10.0.0.0/8"};
    const Mesh mesh = with_ingress(callers);
    const auto all = chains(mesh);
    REQUIRE(all.size() == 1);
    CHECK(all[0].name() == "ingress_server/server_14001_https");
    const auto& match = all[0].filter_chain_match();
    CHECK(match.transport_protocol() == "tls");
    CHECK(match.application_protocols_size() == 0);
    REQUIRE(match.server_names_size() == 1);
    CHECK(match.server_names(0) == "shop.example");
    const auto tls = tls_of(all[0]);
    CHECK(tls.require_client_certificate().value());
    const auto& validation =
        tls.common_tls_context().combined_validation_context().default_validation_context();
    REQUIRE(validation.match_typed_subject_alt_names_size() == 2);
    CHECK(validation.match_typed_subject_alt_names(0).san_type() == SubjectAltNameMatcher::DNS);
    CHECK(validation.match_typed_subject_alt_names(0).matcher().exact() == "a.edge");
    CHECK(validation.match_typed_subject_alt_names(1).san_type() == SubjectAltNameMatcher::URI);

    const auto ids = admission(mesh).policies().at("ingress").principals(0).and_ids();
    REQUIRE(ids.ids_size() == 3);  // an address, and a name, and no workload
    CHECK(ids.ids(0).or_ids().ids(0).has_direct_remote_ip());
    CHECK(ids.ids(1).or_ids().ids(0).authenticated().principal_name().exact() == "a.edge");
    CHECK(ids.ids(2).not_id().authenticated().principal_name().safe_regex().regex() ==
          "spiffe://[^/]+/ns/.*");
  }

  TEST_CASE("without names a certificate pins one that nobody has") {
    const auto tls = tls_of(chains(with_ingress(proven({}, {"a.b"})))[0]);
    const auto& names = tls.common_tls_context()
                            .combined_validation_context()
                            .default_validation_context()
                            .match_typed_subject_alt_names();
    REQUIRE(names.size() == 1);
    CHECK(names[0].matcher().exact() == "spiffe://nobody/osm/nobody");
  }

  TEST_CASE("skipClientCertValidation asks for no certificate") {
    const auto all = chains(with_ingress({.origin = {},
                                          .tls = IngressTls{false, {"a.b"}},
                                          .networks = Texts{"10.0.0.0/8"},
                                          .principals = {}}));
    const auto tls = tls_of(all[0]);
    CHECK_FALSE(tls.require_client_certificate().value());
    CHECK_FALSE(tls.common_tls_context().has_combined_validation_context());
    CHECK(tls.common_tls_context().tls_certificate_sds_secret_configs_size() == 1);
  }

  TEST_CASE("a backend for any server name also has the names of the mesh chains") {
    const auto all = chains(with_ingress(proven({"a.edge"})));
    REQUIRE(all.size() == 2);
    CHECK(all[0].filter_chain_match().server_names_size() == 0);
    CHECK(all[1].name() == "ingress_server/server_14001_https_mesh-names");
    CHECK(all[1].filter_chain_match().application_protocols_size() == 0);
    REQUIRE(all[1].filter_chain_match().server_names_size() == 1);
    CHECK(all[1].filter_chain_match().server_names(0) == "server.server.svc.cluster.local");
  }

  TEST_CASE("of two Services on one port the first by name has what both could get") {
    Mesh mesh = with_ingress(proven({"b.edge"}, {"a.b", "c.d"}));
    auto other = server_entry();
    other.name = {"server", "other"};
    other.cluster_ip = "10.96.0.1";
    for (MeshService& port : other.ports) port.name = other.name;
    other.ingress.emplace(Port{14001}, proven({"a.edge"}, {"a.b"}));
    mesh.put(other);
    auto proxy = server_class();
    proxy.own_ports.insert(proxy.own_ports.begin(), other.ports.front());
    const auto listener = mesh.listener(proxy, "inbound-listener");
    std::map<std::string, Texts> names;
    for (const auto& chain : listener.filter_chains())
      if (chain.name().starts_with("ingress_"))
        names[chain.name()] = {chain.filter_chain_match().server_names().begin(),
                               chain.filter_chain_match().server_names().end()};
    CHECK(names == std::map<std::string, Texts>{{"ingress_server/other_14001_https", {"a.b"}},
                                                {"ingress_server/server_14001_https", {"c.d"}}});
  }

  TEST_CASE("chains have the Service's limits and settings, HTTP/1.0, and the authorizer") {
    Mesh mesh = with_ingress(plain(Texts{"10.0.0.0/8"}));
    auto entry = *mesh.snapshot.services.find(kServerService);
    UpstreamLimits limits;
    limits.tcp = LocalRateLimit{1, std::chrono::seconds(1), 0};
    limits.http = HttpLocalRateLimit{{5, std::chrono::seconds(60), 0}, 429, {}};
    limits.paths = {{"/slow", HttpLocalRateLimit{{1, std::chrono::seconds(60), 0}, 429, {}}}};
    entry.limits = limits;
    mesh.put(entry);
    auto& config = mesh.snapshot.config.proxy;
    config.external_authorization.enabled = true;
    config.active_health_checks = true;
    const auto chain = chains(mesh)[0];
    REQUIRE(chain.filters_size() == 2);
    CHECK(chain.filters(0).name() == "l4_local_rate_limit");
    const auto manager = unpack<HttpConnectionManager>(chain.filters(1).typed_config());
    CHECK(manager.http_protocol_options().accept_http_10());
    CHECK(manager.forward_client_cert_details() == HttpConnectionManager::SANITIZE_SET);
    Texts filters;
    for (const auto& filter : manager.http_filters()) filters.push_back(filter.name());
    CHECK(filters == Texts{"http_header_names", "http_rbac", "http_local_rate_limit",
                           "http_external_authz", "http_router"});
    const auto host = mesh.routes(server_class(), kRoutes).virtual_hosts(0);
    CHECK(host.domains(0) == "*");
    CHECK(host.typed_per_filter_config().contains("http_local_rate_limit"));
    REQUIRE(host.routes_size() == 2);
    CHECK(host.routes(0).match().path() == "/slow");
    CHECK(host.routes(1).route().cluster() == "server/server|14001|local");
  }

  TEST_CASE("a TCP port that admits callers has what HTTP needs") {
    Mesh mesh = with_ingress(plain(Texts{"10.0.0.0/8"}), Protocol::kTcp);
    mesh.snapshot.config.proxy.external_authorization.enabled = true;
    const auto names = mesh.names(server_class(Protocol::kTcp), XdsType::kCluster);
    CHECK(std::find(names.begin(), names.end(), "envoy-authorization-cluster") != names.end());
    CHECK(chains(mesh, Protocol::kTcp).size() == 1);
  }
}
