// Listeners match the right addresses, require mutual TLS and close by default.
#include "envoy/config/listener/v3/listener.pb.h"

#include <algorithm>
#include <map>
#include <set>

#include "envoy/extensions/filters/http/lua/v3/lua.pb.h"
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::listener::v3::FilterChain;
using envoy::extensions::filters::http::lua::v3::Lua;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
using envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
namespace network_rbac = envoy::extensions::filters::network::rbac::v3;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;

namespace {

// The worked example's Service, as clients dial it.
const std::string kDialled = "outbound_10.96.10.7_80";

std::vector<std::string> chain_names(const Listener& listener) {
  std::vector<std::string> out;
  for (const auto& chain : listener.filter_chains()) out.push_back(chain.name());
  return out;
}

const ServiceName kApex{"server", "apex"}, kV1{"server", "v1"}, kV2{"server", "v2"};

model::ServiceEntry tcp_service(const ServiceName& name, const std::string& address,
                                const MeshService& served) {
  model::ServiceEntry entry;
  entry.name = name;
  entry.cluster_ip = address;
  entry.ports = {served};
  entry.identities = {kServer};
  return entry;
}

using Split = std::vector<WeightedCluster>;

Mesh tcp_split(Split backends) {
  Mesh mesh;
  auto apex = tcp_service(kApex, "10.96.0.1", port(kApex, 7000, 7000, Protocol::kTcp));
  apex.split = std::move(backends);
  mesh.put(apex);
  mesh.put(tcp_service(kV1, "10.96.0.2", port(kV1, 7000, 7001, Protocol::kTcp)));
  mesh.put(tcp_service(kV2, "10.96.0.3", port(kV2, 7000, 7002, Protocol::kTcpServerFirst)));
  mesh.put(kClient, {upstream(kApex, {kServer}), {kV1, false, true, {}}, {kV2, false, true, {}}});
  return mesh;
}

TcpProxy tcp_proxy_of(const Mesh& mesh) {
  const auto listener = mesh.listener(client_class(), "outbound_10.96.0.1_7000");
  REQUIRE(listener.filter_chains_size() == 1);
  REQUIRE(listener.filter_chains(0).filters_size() == 1);
  return unpack<TcpProxy>(listener.filter_chains(0).filters(0).typed_config());
}

HttpConnectionManager manager_of(const FilterChain& chain) {
  return unpack<HttpConnectionManager>(chain.filters(chain.filters_size() - 1).typed_config());
}

}  // namespace

TEST_SUITE("translate::listener") {
  TEST_CASE("a service port has a listener of its own, without a socket, which asks its routes") {
    const auto mesh = worked_example();
    CHECK(mesh.names(client_class(), XdsType::kListener) ==
          std::vector<std::string>{"outbound-listener", kDialled});
    const auto listener = mesh.listener(client_class(), kDialled);
    CHECK(listener.address().socket_address().address() == "10.96.10.7");
    CHECK(listener.address().socket_address().port_value() == 80);
    REQUIRE(listener.has_bind_to_port());
    CHECK_FALSE(listener.bind_to_port().value());
    REQUIRE(chain_names(listener) == std::vector<std::string>{"outbound_server/server_80_http"});
    CHECK_FALSE(listener.filter_chains(0).has_filter_chain_match());
    const auto manager = manager_of(listener.filter_chains(0));
    CHECK(manager.rds().route_config_name() == "rds-outbound.80.server.server.svc.cluster.local");
    CHECK(manager.stat_prefix() == "mesh-http-conn-manager.rds-outbound.80");
    CHECK(manager.http_protocol_options().accept_http_10());
  }

  TEST_CASE("another service changes no bytes of a service's listener, routes and cluster") {
    auto mesh = worked_example();
    const auto all = [&] {
      std::map<std::string, std::string> bytes;
      for (const XdsType type :
           {XdsType::kListener, XdsType::kRoute, XdsType::kCluster, XdsType::kEndpoint})
        for (const auto& input : mesh.inputs(client_class(), type)) {
          const auto resource = input->encode();
          bytes[std::string(xds_type_text(type)) + ' ' + resource.name] = resource.any;
        }
      return bytes;
    };
    const auto before = all();
    auto other = server_entry();
    other.name = {"server", "other"};
    other.cluster_ip = "10.96.10.8";
    other.ports = {port(other.name, 80, 14001)};
    mesh.put(other);
    mesh.put(kClient, {upstream(other.name, {kServer}), upstream(kServerService, {kServer})});
    const auto after = all();
    CHECK(after.size() == before.size() + 4);
    std::size_t bytes = 0;
    for (const auto& [name, any] : after) {
      const auto at = before.find(name);
      if (at == before.end()) bytes += any.size();
      if (at != before.end()) CHECK_MESSAGE(at->second == any, name);
    }
    CHECK(bytes < 3600);  // the limit is 4 kB with names and versions
  }

  TEST_CASE("an address that moves to another service changes its listener and adds none") {
    auto mesh = worked_example();
    auto heir = server_entry();
    heir.name = {"server", "heir"};
    heir.ports = {port(heir.name, 80, 14001)};
    mesh.put(heir);
    mesh.put(kClient, {upstream(heir.name, {kServer})});
    CHECK(mesh.names(client_class(), XdsType::kListener) ==
          std::vector<std::string>{"outbound-listener", kDialled});
    CHECK(chain_names(mesh.listener(client_class(), kDialled)) ==
          std::vector<std::string>{"outbound_server/heir_80_http"});
  }

  TEST_CASE("a server that speaks first is not kept waiting by an inspector") {
    const auto mesh = worked_example(Protocol::kTcpServerFirst);
    const auto listener = mesh.listener(client_class(), "outbound-listener");
    REQUIRE(listener.listener_filters_size() == 1);
    CHECK(listener.listener_filters(0).name() == "envoy.filters.listener.original_dst");
    CHECK(mesh.listener(client_class(), kDialled).listener_filters().empty());
  }

  TEST_CASE("the outbound listener hands over by destination, and takes no connection itself") {
    const auto mesh = worked_example();
    const auto listener = mesh.listener(client_class(), "outbound-listener");
    CHECK(listener.use_original_dst().value());
    CHECK_FALSE(listener.has_default_filter_chain());
    REQUIRE(chain_names(listener) == std::vector<std::string>{"outbound-nowhere"});
    const auto& chain = listener.filter_chains(0);
    CHECK(chain.filters().empty());
    REQUIRE(chain.filter_chain_match().prefix_ranges_size() == 1);
    CHECK(chain.filter_chain_match().prefix_ranges(0).address_prefix() == "0.0.0.0");
    CHECK(chain.filter_chain_match().prefix_ranges(0).prefix_len().value() == 32);
    CHECK_FALSE(mesh.listener(server_class(), "inbound-listener").has_use_original_dst());
  }

  TEST_CASE("each pod of a headless service has a listener") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.cluster_ip.clear();
    entry.headless = true;
    entry.addresses = {"10.1.0.9", "fd00::9"};
    mesh.put(entry);
    for (const std::string address : {"10.1.0.9", "fd00::9"})
      CHECK(mesh.listener(client_class(), "outbound_" + address + "_80")
                .address()
                .socket_address()
                .address() == address);
  }

  TEST_CASE("a headless service without endpoints has no chain, and no listener for it alone") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.cluster_ip.clear();
    entry.headless = true;
    mesh.put(entry);
    CHECK(mesh.names(client_class(), XdsType::kListener).empty());
  }

  TEST_CASE("two services on one address and port make one listener, the first by name") {
    auto mesh = worked_example();
    auto twin = server_entry();
    twin.name.name = "aaa";
    twin.ports[0].name = twin.name;
    mesh.put(twin);
    mesh.put(kClient, {upstream(twin.name, {kServer}), upstream(kServerService, {kServer})});
    CHECK(mesh.names(client_class(), XdsType::kListener).size() == 2);
    CHECK(chain_names(mesh.listener(client_class(), kDialled)) ==
          std::vector<std::string>{"outbound_server/aaa_80_http"});
  }

  TEST_CASE("a service that only a split sends to has no chain") {
    auto mesh = worked_example();
    mesh.put(kClient, {{kServerService, false, true, {}}});
    CHECK(mesh.names(client_class(), XdsType::kListener).empty());
    CHECK(mesh.names(client_class(), XdsType::kRoute).empty());
    CHECK(mesh.names(client_class(), XdsType::kCluster).size() == 1);
  }

  TEST_CASE("egress adds the default chain, and an outbound listener where there was none") {
    auto mesh = worked_example();
    CHECK_FALSE(mesh.encoded(server_class(), XdsType::kListener, "outbound-listener"));
    mesh.snapshot.config.proxy.egress = true;
    const auto listener = mesh.listener(server_class(), "outbound-listener");
    CHECK(listener.default_filter_chain().name() == "outbound-egress-filter-chain");
    CHECK(listener.filter_chains().empty());
  }

  TEST_CASE("outbound TCP goes to the service's own cluster") {
    const auto listener = worked_example(Protocol::kTcp).listener(client_class(), kDialled);
    const auto proxy = unpack<TcpProxy>(listener.filter_chains(0).filters(0).typed_config());
    CHECK(proxy.cluster() == "server/server|14001");
    CHECK(proxy.stat_prefix() == "outbound-mesh-tcp-proxy_outbound_server/server_80_tcp");
  }

  TEST_CASE("TCP of a split goes by weight to the backends' TCP ports of the dialled number") {
    const Split both{{kV1, 90}, {kV2, 10}};
    const auto proxy = tcp_proxy_of(tcp_split(both));
    const auto& clusters = proxy.weighted_clusters().clusters();
    REQUIRE(clusters.size() == 2);
    CHECK(clusters[0].name() == "server/v1|7001");
    CHECK(clusters[0].weight() == 90);
    CHECK(clusters[1].name() == "server/v2|7002");
    CHECK(clusters[1].weight() == 10);
    CHECK(proxy.stat_prefix() == "outbound-mesh-tcp-proxy_outbound_server/apex_7000_tcp");
    const auto references =
        tcp_split(both)
            .encoded(client_class(), XdsType::kListener, "outbound_10.96.0.1_7000")
            ->references;
    std::set<std::string> named;
    for (const auto& reference : references) named.insert(reference.name);
    CHECK(named == std::set<std::string>{"server/v1|7001", "server/v2|7002"});
  }

  TEST_CASE("a backend without weight, or without the TCP port, gets no connection of a split") {
    CHECK(tcp_proxy_of(tcp_split({{kV1, 1}, {kV2, 0}})).cluster() == "server/v1|7001");
    auto mesh = tcp_split({{kV1, 1}, {kV2, 1}});
    mesh.put(tcp_service(kV1, "10.96.0.2", port(kV1, 7000, 7001)));  // HTTP
    CHECK(tcp_proxy_of(mesh).cluster() == "server/v2|7002");
  }

  TEST_CASE("a split without a destination closes TCP connections, and keeps its chain") {
    for (const Split& split :
         {Split{}, Split{{kV1, 0}, {kV2, 0}}, Split{{{"server", "gone"}, 1}}}) {
      const auto listener = tcp_split(split).listener(client_class(), "outbound_10.96.0.1_7000");
      REQUIRE(chain_names(listener) == std::vector<std::string>{"outbound_server/apex_7000_tcp"});
      CHECK(listener.filter_chains(0).filters().empty());
    }
  }

  TEST_CASE("the accounts behind a service are no part of its clients' listeners and routes") {
    auto mesh = worked_example();
    const std::string routes_name = "rds-outbound.80.server.server.svc.cluster.local";
    const auto listener = mesh.encoded(client_class(), XdsType::kListener, kDialled);
    const auto routes = mesh.encoded(client_class(), XdsType::kRoute, routes_name);
    auto entry = server_entry();
    entry.identities.clear();
    entry.idle = true;
    mesh.put(entry);
    mesh.put(model::ServiceEndpoints{kServerService, {}});
    mesh.put(kClient, {{kServerService, true, true, {}}});
    CHECK(mesh.encoded(client_class(), XdsType::kListener, kDialled)->any == listener->any);
    CHECK(mesh.encoded(client_class(), XdsType::kRoute, routes_name)->any == routes->any);
  }

  TEST_CASE("an inbound chain takes only mutual TLS of the mesh for this very service") {
    const auto listener = worked_example().listener(server_class(), "inbound-listener");
    REQUIRE(chain_names(listener) == std::vector<std::string>{"inbound_server/server_14001_http"});
    const auto& chain = listener.filter_chains(0);
    const auto& match = chain.filter_chain_match();
    CHECK(match.destination_port().value() == 14001);
    CHECK(match.server_names(0) == "server.server.svc.cluster.local");
    CHECK(match.transport_protocol() == "tls");
    CHECK(match.application_protocols(0) == "osm");
    const auto tls = unpack<DownstreamTlsContext>(chain.transport_socket().typed_config());
    CHECK(tls.require_client_certificate().value());
    CHECK(tls.common_tls_context().alpn_protocols().empty());
    const auto& matchers = tls.common_tls_context()
                               .combined_validation_context()
                               .default_validation_context()
                               .match_typed_subject_alt_names();
    REQUIRE(matchers.size() == 1);
    CHECK(matchers[0].matcher().prefix() == "spiffe://cluster.local/ns/");
    CHECK_FALSE(listener.has_default_filter_chain());
  }

  TEST_CASE("while trust domains change, workloads of each may connect") {
    auto mesh = worked_example();
    mesh.domains({"cluster.local", "new.example"});
    const auto prefixes = [&] {
      const auto listener = mesh.listener(server_class(), "inbound-listener");
      const auto tls =
          unpack<DownstreamTlsContext>(listener.filter_chains(0).transport_socket().typed_config());
      std::vector<std::string> out;
      for (const auto& matcher : tls.common_tls_context()
                                     .combined_validation_context()
                                     .default_validation_context()
                                     .match_typed_subject_alt_names())
        out.push_back(matcher.matcher().prefix());
      return out;
    };
    CHECK(prefixes() ==
          std::vector<std::string>{"spiffe://cluster.local/ns/", "spiffe://new.example/ns/"});
    const auto wide = mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any;
    mesh.snapshot.accepted_domains = {TrustDomain("new.example")};
    CHECK(prefixes() == std::vector<std::string>{"spiffe://new.example/ns/"});
    // The end of the old names is one of routes: HTTP connections are not drained for it again.
    const auto narrow = mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any;
    mesh.snapshot.allowed_domains = {TrustDomain("new.example")};
    CHECK(narrow != wide);
    CHECK(mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any == narrow);
  }

  TEST_CASE("no change of HTTP policy or mode changes a listener") {
    auto mesh = worked_example();
    const auto before = mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any;
    mesh.put(kServer, {}, {});
    CHECK(mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any == before);
    mesh.snapshot.config.proxy.permissive = true;
    CHECK(mesh.encoded(server_class(), XdsType::kListener, "inbound-listener")->any == before);
  }

  TEST_CASE("the inbound connection manager is closed but for what virtual hosts open") {
    const auto listener = worked_example().listener(server_class(), "inbound-listener");
    const auto manager = manager_of(listener.filter_chains(0));
    REQUIRE(manager.http_filters_size() == 4);
    const auto rbac = unpack<http_rbac::RBAC>(manager.http_filters(1).typed_config());
    CHECK(rbac.has_rules());  // without rules the filter lets everything through
    CHECK(rbac.rules().policies().empty());
    CHECK_FALSE(manager.normalize_path().value());
    CHECK_FALSE(manager.merge_slashes());
    CHECK(manager.path_with_escaped_slashes_action() == HttpConnectionManager::KEEP_UNCHANGED);
    CHECK(manager.forward_client_cert_details() == HttpConnectionManager::SANITIZE_SET);
  }

  TEST_CASE(
      "header names with an underscore are refused, or the caller's header has one spelling") {
    auto mesh = worked_example();
    auto entry = server_entry();
    const auto check = [&] {
      const auto listener = mesh.listener(server_class(), "inbound-listener");
      const auto manager = manager_of(listener.filter_chains(0));
      CHECK(manager.http_filters(0).name() == "http_header_names");
      const bool counts = std::any_of(
          manager.access_log().begin(), manager.access_log().end(), [](const auto& log) {
            return log.filter().metadata_filter().matcher().filter() == "osm";
          });
      const auto lua = unpack<Lua>(manager.http_filters(0).typed_config());
      return std::pair(lua.default_source_code().inline_string(), counts);
    };
    const auto [strict, counted] = check();
    CHECK(strict.find("respond({[\":status\"] = \"400\"}") != std::string::npos);
    CHECK(counted);
    entry.header_names = HeaderNames::kUnchecked;
    mesh.put(entry);
    const auto [unchecked, counted_too] = check();
    CHECK(unchecked.find("respond") == std::string::npos);
    CHECK(unchecked.find("x-forwarded-client-cert") != std::string::npos);
    CHECK_FALSE(counted_too);
  }

  TEST_CASE("a dot at the end of a host is dropped, and an offer of TLS is ignored") {
    const auto mesh = worked_example();
    for (const auto& listener : {mesh.listener(client_class(), kDialled),
                                 mesh.listener(server_class(), "inbound-listener")}) {
      const auto manager = manager_of(listener.filter_chains(0));
      CHECK(manager.strip_trailing_host_dot());
      REQUIRE(manager.http_protocol_options().ignore_http_11_upgrade_size() == 1);
      CHECK(manager.http_protocol_options().ignore_http_11_upgrade(0).prefix() == "TLS/");
      CHECK(manager.http_protocol_options().ignore_http_11_upgrade(0).ignore_case());
    }
  }

  TEST_CASE("limits of headers are written where they differ from Envoy's") {
    auto mesh = worked_example();
    const auto manager = [&](const translate::ProxyClass& of, const char* listener) {
      const auto made = mesh.listener(of, listener);
      return manager_of(made.filter_chains(0));
    };
    CHECK_FALSE(manager(server_class(), "inbound-listener").has_max_request_headers_kb());
    mesh.snapshot.config.proxy.headers = {300, 96};
    for (const auto& made : {manager(server_class(), "inbound-listener"),
                             manager(client_class(), "outbound_10.96.10.7_80")}) {
      CHECK(made.common_http_protocol_options().max_headers_count().value() == 300);
      CHECK(made.max_request_headers_kb().value() == 96);
    }
  }

  TEST_CASE("a Service's annotation lets its proxies normalize paths") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.http_paths = HttpPaths::kNormalize;
    mesh.put(entry);
    const auto listener = mesh.listener(server_class(), "inbound-listener");
    const auto manager = manager_of(listener.filter_chains(0));
    CHECK(manager.normalize_path().value());
    CHECK(manager.merge_slashes());
    CHECK(manager.path_with_escaped_slashes_action() == HttpConnectionManager::REJECT_REQUEST);
  }

  TEST_CASE("a denied caller ends its open streams: the chain refuses it, and so it drains") {
    auto mesh = worked_example();
    mesh.domains({"cluster.local", "new.example"});
    const auto chain_of = [&] {
      return mesh.listener(server_class(), "inbound-listener").filter_chains(0);
    };
    REQUIRE(chain_of().filters_size() == 1);
    auto denials = std::make_shared<Denials>();
    denials->accounts[kClient] = {};
    mesh.snapshot.denied = denials;
    SUBCASE("in SMI mode, where a target let it in") {
      CHECK(chain_of().filters_size() == 1);  // no target did
      auto policy = *mesh.snapshot.policies.find(kServer);
      policy.denied = {kClient};
      mesh.snapshot.policies =
          mesh.snapshot.policies.with(std::make_shared<const model::IdentityPolicy>(policy));
    }
    SUBCASE("in permissive mode") { mesh.permissive(); }
    const auto chain = chain_of();
    REQUIRE(chain.filters_size() == 2);
    const auto rules = unpack<network_rbac::RBAC>(chain.filters(0).typed_config()).rules();
    CHECK(rules.action() == envoy::config::rbac::v3::RBAC::DENY);
    REQUIRE(rules.policies().size() == 1);
    std::vector<std::string> names;
    for (const auto& principal : rules.policies().begin()->second.principals())
      names.push_back(principal.authenticated().principal_name().exact());
    CHECK(names == std::vector<std::string>{"spiffe://cluster.local/ns/client/sa/client",
                                            "spiffe://new.example/ns/client/sa/client"});
    CHECK(rules.policies().begin()->second.permissions(0).any());
  }

  TEST_CASE("a TCP chain admits the exact sources of the targets that name its port") {
    auto mesh = worked_example(Protocol::kTcp);
    mesh.put(kServer, {},
             {tcp_target("any", {kClient}), tcp_target("other", {{"x", "x"}}, {Port{9}}),
              tcp_target("this", {{"y", "y"}}, {Port{14001}}), tcp_target("void", {}),
              http_target("web", {{"z", "z"}}, {RoutePolicy{}})});
    const auto listener = mesh.listener(server_class(Protocol::kTcp), "inbound-listener");
    const auto& chain = listener.filter_chains(0);
    REQUIRE(chain.filters_size() == 2);
    const auto rbac = unpack<network_rbac::RBAC>(chain.filters(0).typed_config());
    std::set<std::string> keys;
    for (const auto& [key, policy] : rbac.rules().policies()) keys.insert(key);
    CHECK(keys == std::set<std::string>{"server/any", "server/this"});
    CHECK(rbac.rules()
              .policies()
              .at("server/any")
              .principals(0)
              .authenticated()
              .principal_name()
              .exact() == "spiffe://cluster.local/ns/client/sa/client");
  }

  TEST_CASE("a TCP chain admits its sources under the names of every domain that is allowed") {
    auto mesh = worked_example(Protocol::kTcp);
    mesh.snapshot.allowed_domains.emplace_back("old.example");
    const auto listener = mesh.listener(server_class(Protocol::kTcp), "inbound-listener");
    const auto rbac =
        unpack<network_rbac::RBAC>(listener.filter_chains(0).filters(0).typed_config());
    std::vector<std::string> names;
    for (const auto& principal : rbac.rules().policies().at("server/tt").principals())
      names.push_back(principal.authenticated().principal_name().exact());
    CHECK(names == std::vector<std::string>{"spiffe://cluster.local/ns/client/sa/client",
                                            "spiffe://old.example/ns/client/sa/client"});
  }

  TEST_CASE("a TCP chain without targets has rules without policies and denies") {
    auto mesh = worked_example(Protocol::kTcp);
    mesh.put(kServer, {}, {});
    const auto listener = mesh.listener(server_class(Protocol::kTcp), "inbound-listener");
    const auto rbac =
        unpack<network_rbac::RBAC>(listener.filter_chains(0).filters(0).typed_config());
    CHECK(rbac.has_rules());
    CHECK(rbac.rules().policies().empty());
  }

  TEST_CASE("two service ports on one target port share a chain; two services do not") {
    auto mesh = worked_example();
    const ServiceName other{"server", "other"};
    const translate::ProxyClass both{kServer,
                                     {{port(other, 80, 14001)},
                                      {port(kServerService, 80, 14001)},
                                      {port(kServerService, 8080, 14001)}}};
    CHECK(chain_names(mesh.listener(both, "inbound-listener")) ==
          std::vector<std::string>{"inbound_server/other_14001_http",
                                   "inbound_server/server_14001_http"});
  }

  TEST_CASE("HTTP and gRPC on one target port share the chain of gRPC, in either order") {
    const auto mesh = worked_example();
    for (const bool grpc_first : {false, true}) {
      std::vector<MeshService> ports{
          port(kServerService, 80, 14001, Protocol::kHttp, grpc_first ? "z" : "a"),
          port(kServerService, 81, 14001, Protocol::kGrpc, grpc_first ? "a" : "z")};
      std::sort(ports.begin(), ports.end());
      CHECK(chain_names(mesh.listener({kServer, ports}, "inbound-listener")) ==
            std::vector<std::string>{"inbound_server/server_14001_grpc"});
    }
  }

  TEST_CASE("a proxy without services of its own has no inbound listener") {
    CHECK_FALSE(worked_example().encoded(client_class(), XdsType::kListener, "inbound-listener"));
  }

  TEST_CASE("every route configuration a listener names is among the routes") {
    auto mesh = worked_example();
    mesh.permissive();
    for (const auto& of : {client_class(), server_class()}) {
      const auto routes = mesh.names(of, XdsType::kRoute);
      for (const auto& input : mesh.inputs(of, XdsType::kListener))
        for (const auto& reference : input->encode().references)
          if (reference.type == XdsType::kRoute)
            CHECK(std::count(routes.begin(), routes.end(), reference.name) == 1);
    }
  }
}
