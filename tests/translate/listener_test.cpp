#include "envoy/config/listener/v3/listener.pb.h"

#include <set>

#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::listener::v3::FilterChain;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
using envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
namespace network_rbac = envoy::extensions::filters::network::rbac::v3;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;

namespace {

std::vector<std::string> chain_names(const Listener& listener) {
  std::vector<std::string> out;
  for (const auto& chain : listener.filter_chains()) out.push_back(chain.name());
  return out;
}

HttpConnectionManager manager_of(const FilterChain& chain) {
  return unpack<HttpConnectionManager>(chain.filters(chain.filters_size() - 1).typed_config());
}

}  // namespace

TEST_SUITE("translate::listener") {
  TEST_CASE("an outbound chain matches the service's address and port and asks its routes") {
    const auto listener = worked_example().listener(client_class(), "outbound-listener");
    REQUIRE(chain_names(listener) == std::vector<std::string>{"outbound_server/server_80_http"});
    const auto& match = listener.filter_chains(0).filter_chain_match();
    CHECK(match.destination_port().value() == 80);
    REQUIRE(match.prefix_ranges_size() == 1);
    CHECK(match.prefix_ranges(0).address_prefix() == "10.96.10.7");
    CHECK(match.prefix_ranges(0).prefix_len().value() == 32);
    CHECK(manager_of(listener.filter_chains(0)).rds().route_config_name() == "rds-outbound.80");
    CHECK_FALSE(listener.has_default_filter_chain());
  }

  TEST_CASE("a server that speaks first is not kept waiting by an inspector") {
    const auto listener =
        worked_example(Protocol::kTcpServerFirst).listener(client_class(), "outbound-listener");
    REQUIRE(listener.listener_filters_size() == 1);
    CHECK(listener.listener_filters(0).name() == "envoy.filters.listener.original_dst");
  }

  TEST_CASE("the flag use_original_dst is never set") {
    const auto mesh = worked_example();
    CHECK_FALSE(mesh.listener(client_class(), "outbound-listener").has_use_original_dst());
    CHECK_FALSE(mesh.listener(server_class(), "inbound-listener").has_use_original_dst());
  }

  TEST_CASE("a headless service is matched by the addresses of its endpoints") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.cluster_ip.clear();
    entry.headless = true;
    entry.addresses = {"10.1.0.9", "fd00::9"};
    mesh.put(entry);
    const auto listener = mesh.listener(client_class(), "outbound-listener");
    const auto& ranges = listener.filter_chains(0).filter_chain_match().prefix_ranges();
    REQUIRE(ranges.size() == 2);
    CHECK(ranges[0].address_prefix() == "10.1.0.9");
    CHECK(ranges[1].prefix_len().value() == 128);
  }

  TEST_CASE("a headless service without endpoints has no chain, and no listener for it alone") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.cluster_ip.clear();
    entry.headless = true;
    mesh.put(entry);
    CHECK(mesh.names(client_class(), XdsType::kListener).empty());
  }

  TEST_CASE("two services on one address and port make one chain, the first by name") {
    auto mesh = worked_example();
    auto twin = server_entry();
    twin.name.name = "aaa";
    twin.ports[0].name = twin.name;
    mesh.put(twin);
    mesh.put(kClient, {upstream(twin.name, {kServer}), upstream(kServerService, {kServer})});
    CHECK(chain_names(mesh.listener(client_class(), "outbound-listener")) ==
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
    const auto listener =
        worked_example(Protocol::kTcp).listener(client_class(), "outbound-listener");
    const auto proxy = unpack<TcpProxy>(listener.filter_chains(0).filters(0).typed_config());
    CHECK(proxy.cluster() == "server/server|14001");
    CHECK(proxy.stat_prefix() == "outbound-mesh-tcp-proxy_outbound_server/server_80_tcp");
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
    REQUIRE(manager.http_filters_size() == 2);
    const auto rbac = unpack<http_rbac::RBAC>(manager.http_filters(0).typed_config());
    CHECK(rbac.has_rules());  // without rules the filter lets everything through
    CHECK(rbac.rules().policies().empty());
    CHECK(manager.normalize_path().value());
    CHECK(manager.merge_slashes());
    CHECK(manager.path_with_escaped_slashes_action() == HttpConnectionManager::REJECT_REQUEST);
    CHECK(manager.forward_client_cert_details() == HttpConnectionManager::SANITIZE_SET);
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
