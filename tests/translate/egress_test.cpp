// Grants of one port are united; hosts are looked up or dialled; no header is added; without
// Egresses no byte changes.
#include <algorithm>
#include <chrono>
#include <map>

#include "envoy/extensions/filters/http/router/v3/router.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "model/egress.hpp"
#include "model/path_forms.hpp"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using namespace std::chrono_literals;
using envoy::config::listener::v3::FilterChain;
using envoy::config::route::v3::VirtualHost;
using envoy::extensions::filters::http::router::v3::Router;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;

namespace {

using enum EgressProtocol;
using Names = std::vector<std::string>;

constexpr const char* kDialled = "passthrough-outbound";
constexpr Ipv4Network kWide{0x0A000000, 8}, kNarrow{0x0A010000, 16};

model::EgressGrant grant(std::vector<EgressPort> ports, Names hosts = {},
                         std::vector<Ipv4Network> networks = {}) {
  model::EgressGrant out{
      .origin = {}, .ports = std::move(ports), .hosts = {}, .networks = {}, .routes = {}};
  if (!hosts.empty()) out.hosts.emplace();
  for (std::string& host : hosts) out.hosts->push_back({std::move(host), std::nullopt});
  if (!networks.empty()) out.networks = std::move(networks);
  return out;
}
model::EgressGrant http(Names hosts, std::vector<RoutePolicy> routes = {}) {
  auto out = grant({{Port{80}, kHttp}}, std::move(hosts));
  if (!routes.empty()) out.routes = std::move(routes);
  return out;
}

Mesh with_grants(std::vector<model::EgressGrant> grants) {
  Mesh mesh = worked_example();
  mesh.snapshot.clients = mesh.snapshot.clients.with(std::make_shared<const model::ClientPolicy>(
      model::ClientPolicy{kClient, {}, std::move(grants)}));
  return mesh;
}

Listener outbound(const Mesh& mesh) { return mesh.listener(client_class(), "outbound-listener"); }

// The listener's chains for egress, by name.
std::map<std::string, FilterChain> chains(const Mesh& mesh) {
  std::map<std::string, FilterChain> out;
  const Listener listener = outbound(mesh);
  for (const auto& chain : listener.filter_chains())
    if (chain.name().starts_with("egress")) out.emplace(chain.name(), chain);
  return out;
}
Names names_of(const std::map<std::string, FilterChain>& chains) {
  Names out;
  for (const auto& [name, chain] : chains) out.push_back(name);
  return out;
}

// The cluster of a chain that is no HTTP chain.
std::string cluster_of(const FilterChain& chain) {
  REQUIRE(chain.filters_size() == 1);
  return unpack<TcpProxy>(chain.filters(0).typed_config()).cluster();
}

Names networks_of(const FilterChain& chain) {
  Names out;
  for (const auto& range : chain.filter_chain_match().prefix_ranges())
    out.push_back(range.address_prefix() + '/' + std::to_string(range.prefix_len().value()));
  return out;
}

// "METHOD path cluster" of each route, once for both of its forms.
Names routes_of(const VirtualHost& host) {
  Names out;
  for (const auto& route : host.routes()) {
    if (route.request_headers_to_remove_size() > 0) continue;
    const auto& match = route.match();
    std::string text = match.has_safe_regex() ? match.safe_regex().regex()
                       : match.path().empty() ? match.prefix() + '*'
                                              : match.path();
    for (const auto& header : match.headers())
      if (header.name() == ":method") text = header.string_match().exact() + ' ' + text;
    out.push_back(text + ' ' +
                  (route.has_direct_response() ? std::to_string(route.direct_response().status())
                                               : route.route().cluster()));
  }
  return out;
}

}  // namespace

TEST_SUITE("translate.egress") {
  TEST_CASE("a policy without Egresses adds nothing to the outbound listener") {
    const Listener listener = outbound(with_grants({}));
    REQUIRE(listener.filter_chains_size() == 1);
    CHECK(listener.filter_chains(0).name() == "outbound-nowhere");
    CHECK(listener.listener_filters_size() == 1);  // no inspector
  }

  TEST_CASE("a client without a Service gets a listener for its Egresses alone") {
    Mesh mesh;
    mesh.snapshot.clients = mesh.snapshot.clients.with(std::make_shared<const model::ClientPolicy>(
        model::ClientPolicy{kClient, {}, {grant({{Port{5432}, kTcp}})}}));
    CHECK(names_of(chains(mesh)) == Names{"egress-tcp.5432"});
    CHECK(mesh.names(client_class(), XdsType::kCluster) == Names{kDialled});
    CHECK(mesh.names(server_class(), XdsType::kListener) == Names{"inbound-listener"});
  }

  TEST_CASE("HTTP: a host of its own name is looked up, others are dialled, the rest is unknown") {
    const Mesh mesh = with_grants({http({"example.com", "*.example.org"})});
    const auto all = chains(mesh);
    CHECK(names_of(all) == Names{"egress-http.80"});
    const auto& match = all.at("egress-http.80").filter_chain_match();
    CHECK(match.destination_port().value() == 80);
    CHECK(match.transport_protocol() == "raw_buffer");
    CHECK(match.prefix_ranges_size() == 0);
    const auto routes = mesh.routes(client_class(), "rds-egress.80");
    REQUIRE(routes.virtual_hosts_size() == 2);
    CHECK(routes.virtual_hosts(0).name() == "egress_virtual-host|*.example.org");
    CHECK(routes_of(routes.virtual_hosts(0)) == Names{std::string("/* ") + kDialled});
    CHECK(routes.virtual_hosts(1).domains(0) == "example.com");
    CHECK(routes.virtual_hosts(1).domains(1) == "example.com:80");
    CHECK(routes_of(routes.virtual_hosts(1)) == Names{"/* example.com:80"});
    const auto cluster = mesh.cluster(client_class(), "example.com:80");
    CHECK(cluster.type() == Cluster::STRICT_DNS);
    CHECK(cluster.alt_stat_name() == "example_com_80");
    CHECK_FALSE(cluster.has_transport_socket());
    const auto& server = cluster.load_assignment().endpoints(0).lb_endpoints(0).endpoint();
    CHECK(server.address().socket_address().address() == "example.com");
    CHECK(server.address().socket_address().port_value() == 80);
    const auto dialled = mesh.cluster(client_class(), kDialled);
    CHECK(dialled.type() == Cluster::ORIGINAL_DST);
    CHECK_FALSE(dialled.has_transport_socket());
    CHECK_FALSE(dialled.has_original_dst_lb_config());  // no header says where to
  }

  TEST_CASE("HTTP: nothing of the mesh is added to a request that leaves it") {
    Mesh mesh = with_grants({http({"example.com"})});
    mesh.snapshot.config.proxy.tracing.enabled = true;
    mesh.snapshot.config.proxy.tracing.address = "collector";
    const auto manager =
        unpack<HttpConnectionManager>(chains(mesh).at("egress-http.80").filters(0).typed_config());
    CHECK_FALSE(manager.has_tracing());
    CHECK_FALSE(manager.generate_request_id().value());
    CHECK(manager.has_generate_request_id());
    CHECK(manager.forward_client_cert_details() == HttpConnectionManager::SANITIZE);
    REQUIRE(manager.http_filters_size() == 1);
    CHECK(unpack<Router>(manager.http_filters(0).typed_config()).suppress_envoy_headers());
    const auto routes = mesh.routes(client_class(), "rds-egress.80");
    CHECK(routes.request_headers_to_remove(0) == "x-envoy-internal");
    const auto& host = routes.virtual_hosts(0);
    REQUIRE(host.routes_size() == 2);
    CHECK(host.routes(0).match().headers(0).name() == "x-forwarded-proto");
    CHECK(host.routes(0).match().headers(0).string_match().exact() == "http");
    CHECK(host.routes(0).request_headers_to_remove(0) == "x-forwarded-proto");
    CHECK(host.routes(1).match().headers_size() == 0);
    CHECK(host.routes(1).request_headers_to_remove_size() == 0);
  }

  TEST_CASE("HTTP: grants of one host are united, and paths in other forms match no pattern") {
    const Mesh mesh = with_grants(
        {http({"example.com"}, {{"a", "/a/.*", {"GET", "PUT"}, {}}, {"exact", "/b", {}, {}}}),
         http({"*.com"}, {{"again", "/b", {}, {}}, {"c", "/c[0-9]", {}, {}}})});
    const auto routes = mesh.routes(client_class(), "rds-egress.80");
    REQUIRE(routes.virtual_hosts_size() == 2);
    CHECK(routes_of(routes.virtual_hosts(1)) ==
          Names{"/b example.com:80", std::string(model::kOtherPathForms) + " 404",
                "GET /a/* example.com:80", "PUT /a/* example.com:80", "/c[0-9] example.com:80"});
    CHECK(routes_of(routes.virtual_hosts(0)) == Names{std::string("/b ") + kDialled,
                                                      std::string(model::kOtherPathForms) + " 404",
                                                      std::string("/c[0-9] ") + kDialled});
  }

  TEST_CASE("HTTP: a grant without a route allows nothing") {
    auto none = http({"example.com"});
    none.routes.emplace();
    const Mesh mesh = with_grants({none});
    CHECK(mesh.routes(client_class(), "rds-egress.80").virtual_hosts(0).routes_size() == 0);
    none.hosts.emplace();
    CHECK(names_of(chains(with_grants({none}))).empty());
  }

  TEST_CASE("HTTPS: one chain for each TLS name, and an inspector on these ports alone") {
    const EgressPort port{Port{443}, kHttps};
    const Mesh one = with_grants({grant({port}, {"example.com", "*.example.org"})});
    const auto all = chains(one);
    CHECK(names_of(all) == Names{"egress-https.*.example.org:443", "egress-https.example.com:443"});
    const auto& exact = all.at("egress-https.example.com:443");
    CHECK(exact.filter_chain_match().transport_protocol() == "tls");
    CHECK(exact.filter_chain_match().server_names(0) == "example.com");
    CHECK(cluster_of(exact) == "example.com:443");
    CHECK(cluster_of(all.at("egress-https.*.example.org:443")) == kDialled);
    const Listener listener = outbound(one);
    REQUIRE(listener.listener_filters_size() == 2);
    const auto& only = listener.listener_filters(1).filter_disabled().not_match();
    CHECK(listener.listener_filters(1).name() == "envoy.filters.listener.tls_inspector");
    CHECK(only.destination_port_range().start() == 443);
    CHECK(only.destination_port_range().end() == 444);
    CHECK(listener.continue_on_listener_filters_timeout());

    const Mesh two = with_grants({grant({port, {Port{8443}, kHttps}, {Port{25}, kTcp}})});
    CHECK(names_of(chains(two)) == Names{"egress-https.443", "egress-https.8443", "egress-tcp.25"});
    CHECK(chains(two).at("egress-https.443").filter_chain_match().server_names_size() == 0);
    CHECK(outbound(two).listener_filters(1).filter_disabled().not_match().or_match().rules_size() ==
          2);
    CHECK(outbound(with_grants({http({"a.b"})})).listener_filters_size() == 1);
  }

  TEST_CASE("HTTP and HTTPS on one port: TLS tells them apart, and the HTTP chain stays equal") {
    const Mesh plain = with_grants({http({"example.com"})});
    const Mesh both =
        with_grants({http({"example.com"}), grant({{Port{80}, kHttps}}, {"example.com"})});
    CHECK(names_of(chains(both)) == Names{"egress-http.80", "egress-https.example.com:80"});
    CHECK(chains(both).at("egress-http.80").SerializeAsString() ==
          chains(plain).at("egress-http.80").SerializeAsString());
  }

  TEST_CASE("a host with a port is on this port only") {
    auto hosts = grant({{Port{80}, kHttp}, {Port{8080}, kHttp}});
    hosts.hosts = {{"a.b", Port{8080}}, {"c.d", std::nullopt}};
    const Mesh mesh = with_grants({hosts});
    CHECK(mesh.routes(client_class(), "rds-egress.80").virtual_hosts_size() == 1);
    CHECK(mesh.routes(client_class(), "rds-egress.8080").virtual_hosts_size() == 2);
  }

  TEST_CASE("with addresses a host is dialled, and narrower networks keep what wider ones allow") {
    const EgressPort port{Port{443}, kHttps};
    const Mesh mesh = with_grants({grant({port}, {"any.com"}), grant({port}, {"wide.com"}, {kWide}),
                                   grant({port}, {"narrow.com"}, {kNarrow})});
    const auto all = chains(mesh);
    CHECK(names_of(all) ==
          Names{"egress-https.any.com:443", "egress-https.any.com:443.10.0.0.0/8",
                "egress-https.any.com:443.10.1.0.0/16", "egress-https.narrow.com:443.10.1.0.0/16",
                "egress-https.wide.com:443.10.0.0.0/8", "egress-https.wide.com:443.10.1.0.0/16"});
    CHECK(networks_of(all.at("egress-https.any.com:443")) == Names{});
    CHECK(networks_of(all.at("egress-https.wide.com:443.10.0.0.0/8")) == Names{"10.0.0.0/8"});
    CHECK(cluster_of(all.at("egress-https.any.com:443.10.1.0.0/16")) == "any.com:443");
    CHECK(cluster_of(all.at("egress-https.narrow.com:443.10.1.0.0/16")) == kDialled);
  }

  TEST_CASE("networks that the same grants reach share a chain") {
    const Mesh mesh =
        with_grants({grant({{Port{99}, kTcpServerFirst}}, {}, {kNarrow, {0xC0000200, 24}})});
    const auto all = chains(mesh);
    CHECK(names_of(all) == Names{"egress-tcp.99.10.1.0.0/16"});
    CHECK(networks_of(all.at("egress-tcp.99.10.1.0.0/16")) == Names{"10.1.0.0/16", "192.0.2.0/24"});
    CHECK(outbound(mesh).listener_filters_size() == 1);  // nothing waits for the client
  }

  TEST_CASE("TCP allows every connection, so that other grants of its networks add nothing") {
    const Mesh mesh = with_grants({http({"a.b"}), grant({{Port{80}, kTcp}}, {}, {kWide})});
    CHECK(names_of(chains(mesh)) == Names{"egress-http.80", "egress-tcp.80.10.0.0.0/8"});
    CHECK(names_of(chains(with_grants({http({"a.b"}), grant({{Port{80}, kTcp}})}))) ==
          Names{"egress-tcp.80"});
  }

  TEST_CASE("limits are those of the destination's cluster, and the first setting counts") {
    auto first = http({"a.b", "*.c"});
    first.setting = "shop/x";
    first.connections.max_connections = 1;
    first.connections.connect_timeout = 250ms;
    auto second = http({"a.b", "d.e"});
    second.setting = "shop/y";
    second.connections.max_connections = 2;
    auto tcp = grant({{Port{99}, kTcp}});
    tcp.setting = "shop/x";
    tcp.connections.max_connections = 1;
    const Mesh mesh = with_grants({http({"a.b"}), first, second, tcp});
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          Names{"*.c:80|original-dst|shop/x", "99|original-dst|shop/x", "a.b:80|shop/x",
                "d.e:80|shop/y", "server/server|14001"});
    const auto limited = mesh.cluster(client_class(), "a.b:80|shop/x");
    CHECK(limited.circuit_breakers().thresholds(0).max_connections().value() == 1);
    CHECK(limited.connect_timeout().nanos() == 250'000'000);
    const auto other = mesh.cluster(client_class(), "99|original-dst|shop/x");
    CHECK(other.type() == Cluster::ORIGINAL_DST);
    CHECK(other.circuit_breakers().thresholds(0).max_connections().value() == 1);
  }

  TEST_CASE("global egress drops chains and routes, and keeps clusters for chains that drain") {
    Mesh mesh = with_grants({http({"a.b", "*.c"}), grant({{Port{443}, kHttps}}, {"d.e"})});
    const Names routes = mesh.names(client_class(), XdsType::kRoute);
    const Names clusters = mesh.names(client_class(), XdsType::kCluster);
    CHECK(clusters == Names{"a.b:80", "d.e:443", kDialled, "server/server|14001"});
    const auto dialled = mesh.cluster(client_class(), kDialled).SerializeAsString();
    mesh.snapshot.config.proxy.egress = true;
    CHECK(chains(mesh).empty());
    CHECK(outbound(mesh).listener_filters_size() == 1);  // no inspector
    CHECK(mesh.names(client_class(), XdsType::kRoute).size() == routes.size() - 1);
    CHECK_FALSE(mesh.encoded(client_class(), XdsType::kRoute, "rds-egress.80"));
    CHECK(mesh.names(client_class(), XdsType::kCluster) == clusters);
    CHECK(mesh.cluster(client_class(), kDialled).SerializeAsString() == dialled);
    // It stays too if the Egress goes at the same time.
    mesh.snapshot.clients = {};
    CHECK(mesh.names(client_class(), XdsType::kCluster) == Names{kDialled, "server/server|14001"});
    CHECK(mesh.cluster(client_class(), kDialled).SerializeAsString() == dialled);
  }

  TEST_CASE("addresses of the mesh have listeners of their own") {
    const Mesh mesh = with_grants({http({"a.b"})});
    CHECK(outbound(mesh).filter_chains_size() == 1);
    CHECK(mesh.listener(client_class(), "outbound_10.96.10.7_80").filter_chains(0).name() ==
          "outbound_server/server_80_http");
  }
}
