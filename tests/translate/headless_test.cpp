// A request to a pod of a headless Service reaches that pod, under that Service's policy.
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/snapshots.hpp"

#include <set>

using namespace osm;
using namespace osm::translate_test;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
using envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;

namespace {

const std::string kFqdn = "server.server.svc.cluster.local";
const std::string kPods = "server/server|14001|original-dst";

// The worked example with two pods in place of a cluster IP; dialled at 80, or where they listen.
model::ServiceEntry headless_entry(Protocol protocol = Protocol::kHttp) {
  auto entry = server_entry(protocol);
  entry.cluster_ip.clear();
  entry.headless = true;
  entry.addresses = {"10.1.0.10", "10.1.0.9"};
  return entry;
}

Mesh headless_mesh(Protocol protocol = Protocol::kHttp) {
  auto mesh = worked_example(protocol);
  mesh.put(headless_entry(protocol));
  return mesh;
}

// The listeners of dialled addresses.
std::vector<Listener> dialled(const Mesh& mesh) {
  std::vector<Listener> out;
  for (const std::string& name : mesh.names(client_class(), XdsType::kListener))
    if (name.starts_with("outbound_")) out.push_back(mesh.listener(client_class(), name));
  return out;
}

// "<address>_<port>: <chain>" of each.
std::vector<std::string> chains(const Mesh& mesh) {
  std::vector<std::string> out;
  for (const Listener& listener : dialled(mesh)) {
    const auto& at = listener.address().socket_address();
    CHECK(listener.name() == "outbound_" + at.address() + '_' + std::to_string(at.port_value()));
    REQUIRE(listener.filter_chains_size() == 1);
    out.push_back(at.address() + '_' + std::to_string(at.port_value()) + ": " +
                  listener.filter_chains(0).name());
  }
  return out;
}

std::string routes_of(const envoy::config::listener::v3::FilterChain& chain) {
  for (const auto& filter : chain.filters())
    if (filter.name() == "envoy.filters.network.http_connection_manager" ||
        filter.typed_config().Is<HttpConnectionManager>())
      return unpack<HttpConnectionManager>(filter.typed_config()).rds().route_config_name();
  return "";
}

}  // namespace

TEST_SUITE("translate a headless service") {
  TEST_CASE("its pods are dialled at the service's port and at the one they listen on") {
    CHECK(chains(headless_mesh()) ==
          std::vector<std::string>{"10.1.0.10_14001: outbound_server/server_14001_http",
                                   "10.1.0.10_80: outbound_server/server_80_http",
                                   "10.1.0.9_14001: outbound_server/server_14001_http",
                                   "10.1.0.9_80: outbound_server/server_80_http"});
  }

  TEST_CASE("a pod has listeners of its own, so that others keep theirs when it comes or goes") {
    for (const Protocol protocol : {Protocol::kHttp, Protocol::kTcp}) {
      auto mesh = headless_mesh(protocol);
      const auto other = mesh.encoded(client_class(), XdsType::kListener, "outbound_10.1.0.9_80");
      REQUIRE(other);
      auto entry = headless_entry(protocol);
      entry.addresses = {"10.1.0.9"};
      mesh.put(entry);
      CHECK(dialled(mesh).size() == 2);
      CHECK(mesh.encoded(client_class(), XdsType::kListener, "outbound_10.1.0.9_80")->any ==
            other->any);
    }
  }

  TEST_CASE("connections of a TCP pod go to the dialled pod") {
    auto mesh = headless_mesh(Protocol::kTcp);
    auto entry = headless_entry(Protocol::kTcp);
    entry.ports = {port(kServerService, 3306, 3306, Protocol::kTcp)};
    mesh.put(entry);
    CHECK(chains(mesh) ==
          std::vector<std::string>{"10.1.0.10_3306: outbound_server/server_3306_tcp",
                                   "10.1.0.9_3306: outbound_server/server_3306_tcp"});
    const auto proxy =
        unpack<TcpProxy>(dialled(mesh)[0].filter_chains(0).filters(0).typed_config());
    CHECK(proxy.cluster() == "server/server|3306|original-dst");
    CHECK(proxy.stat_prefix() == "outbound-mesh-tcp-proxy_outbound_server/server_3306_tcp");
  }

  TEST_CASE("ports of Services come before the pods' own ports") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.ports = {port(kServerService, 80, 8080), port(kServerService, 8080, 9090)};
    mesh.put(entry);
    auto other = headless_entry();
    other.name.name = "aaa";
    other.ports = {port(other.name, 81, 9090)};
    mesh.put(other);
    mesh.put(kClient, {upstream(other.name, {kServer}), upstream(kServerService, {kServer})});
    CHECK(chains(mesh) ==
          std::vector<std::string>{"10.1.0.10_80: outbound_server/server_80_http",
                                   "10.1.0.10_8080: outbound_server/server_8080_http",
                                   "10.1.0.10_81: outbound_server/aaa_81_http",
                                   "10.1.0.10_9090: outbound_server/aaa_9090_http",
                                   "10.1.0.9_80: outbound_server/server_80_http",
                                   "10.1.0.9_8080: outbound_server/server_8080_http",
                                   "10.1.0.9_81: outbound_server/aaa_81_http",
                                   "10.1.0.9_9090: outbound_server/aaa_9090_http"});
  }

  TEST_CASE("its cluster goes to the dialled address at the target port, as that service alone") {
    const auto mesh = headless_mesh();
    const auto pods = mesh.cluster(client_class(), kPods);
    const auto any = mesh.cluster(client_class(), "server/server|14001");
    CHECK(pods.type() == Cluster::ORIGINAL_DST);
    CHECK(pods.lb_policy() == Cluster::CLUSTER_PROVIDED);
    CHECK(pods.original_dst_lb_config().upstream_port_override().value() == 14001);
    CHECK_FALSE(pods.original_dst_lb_config().use_http_header());
    CHECK(pods.transport_socket().typed_config().SerializeAsString() ==
          any.transport_socket().typed_config().SerializeAsString());
    CHECK(unpack<UpstreamTlsContext>(pods.transport_socket().typed_config()).sni() == kFqdn);
    CHECK(any.type() == Cluster::EDS);
  }

  TEST_CASE("a port that is dialled where pods listen is not overridden") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.ports = {port(kServerService, 14001, 14001)};
    mesh.put(entry);
    CHECK_FALSE(mesh.cluster(client_class(), kPods).has_original_dst_lb_config());
  }

  TEST_CASE("a split's backend that is not dialled has no cluster for its pods") {
    auto mesh = headless_mesh();
    mesh.put(kClient, {{kServerService, false, true, {}}});
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          std::vector<std::string>{"server/server|14001"});
  }

  TEST_CASE("a named port that no pod has yet leads to the empty cluster") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.ports = {port(kServerService, 80, 0)};
    mesh.put(entry);
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          std::vector<std::string>{"server/server|0"});
    CHECK(chains(mesh).size() == 2);
    CHECK(mesh.routes(client_class(), "rds-outbound.80." + kFqdn)
              .virtual_hosts(0)
              .routes(0)
              .route()
              .cluster() == "server/server|0");
  }

  TEST_CASE("pods that give a named port other numbers are reached at theirs") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.addresses = {"10.1.0.10", "10.1.0.11", "10.1.0.9"};
    entry.ports = {port(kServerService, 80, 14001, Protocol::kHttp, "http")};
    entry.other_targets = {{"http", {{"10.1.0.10", {Port{14002}}}, {"10.1.0.99", {Port{14003}}}}}};
    mesh.put(entry);
    CHECK(chains(mesh) ==
          std::vector<std::string>{"10.1.0.10_14002: outbound_server/server_14002_http",
                                   "10.1.0.10_80: outbound_server/server_80_http",
                                   "10.1.0.11_14001: outbound_server/server_14001_http",
                                   "10.1.0.11_80: outbound_server/server_80_http",
                                   "10.1.0.9_14001: outbound_server/server_14001_http",
                                   "10.1.0.9_80: outbound_server/server_80_http"});
    const std::string there = "server/server|14002|original-dst";
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          std::vector<std::string>{"server/server|14001", kPods, there});
    const auto override_of = [&](const std::string& cluster) {
      return mesh.cluster(client_class(), cluster)
          .original_dst_lb_config()
          .upstream_port_override()
          .value();
    };
    CHECK(override_of(kPods) == 14001);
    CHECK(override_of(there) == 14002);
    const std::string routes = "rds-outbound.80." + kFqdn;
    for (const Listener& listener : dialled(mesh))
      CHECK(routes_of(listener.filter_chains(0)) ==
            (listener.address().socket_address().address() == "10.1.0.10" ? routes + ".14002"
                                                                          : routes));
    const auto cluster_of = [&](const std::string& name) {
      return mesh.routes(client_class(), name).virtual_hosts(0).routes(0).route().cluster();
    };
    CHECK(cluster_of(routes) == kPods);
    CHECK(cluster_of(routes + ".14002") == there);
  }

  TEST_CASE("a TCP pod that gives a named port another number is reached there, too") {
    auto mesh = headless_mesh(Protocol::kTcp);
    auto entry = headless_entry(Protocol::kTcp);
    entry.ports = {port(kServerService, 3306, 3306, Protocol::kTcp, "db")};
    entry.other_targets = {{"db", {{"10.1.0.10", {Port{3307}}}}}};
    mesh.put(entry);
    CHECK(chains(mesh) ==
          std::vector<std::string>{"10.1.0.10_3306: outbound_server/server_3306_tcp",
                                   "10.1.0.10_3307: outbound_server/server_3307_tcp",
                                   "10.1.0.9_3306: outbound_server/server_3306_tcp"});
    std::vector<std::string> clusters;
    for (const Listener& listener : dialled(mesh))
      clusters.push_back(
          unpack<TcpProxy>(listener.filter_chains(0).filters(0).typed_config()).cluster());
    CHECK(clusters == std::vector<std::string>{"server/server|3307|original-dst",
                                               "server/server|3307|original-dst",
                                               "server/server|3306|original-dst"});
    CHECK_FALSE(mesh.cluster(client_class(), "server/server|3306|original-dst")
                    .has_original_dst_lb_config());
  }

  TEST_CASE("two named ports with numbers in common have chains and routes of their own") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.addresses = {"10.1.0.1", "10.1.0.2", "10.1.0.3"};
    entry.ports = {port(kServerService, 80, 1000, Protocol::kHttp, "a"),
                   port(kServerService, 81, 1001, Protocol::kHttp, "b")};
    entry.other_targets = {{"a", {{"10.1.0.2", {Port{2000}}}}},
                           {"b", {{"10.1.0.3", {Port{2000}}}}}};
    mesh.put(entry);
    std::set<std::string> names;
    for (const Listener& listener : dialled(mesh)) {
      CHECK(names.insert(listener.name()).second);
      CHECK(mesh.encoded(client_class(), XdsType::kRoute, routes_of(listener.filter_chains(0))));
    }
    CHECK(names.contains("outbound_10.1.0.2_2000"));
    CHECK(names.contains("outbound_10.1.0.3_2000"));
    CHECK(mesh.names(client_class(), XdsType::kCluster).size() == 5);
  }

  TEST_CASE("the dialled pod answers for any host name") {
    const auto mesh = headless_mesh();
    for (const Listener& listener : dialled(mesh))
      CHECK(routes_of(listener.filter_chains(0)) == "rds-outbound.80." + kFqdn);
    const auto routes = mesh.routes(client_class(), "rds-outbound.80." + kFqdn);
    REQUIRE(routes.virtual_hosts_size() == 1);
    REQUIRE(routes.virtual_hosts(0).domains_size() == 1);
    CHECK(routes.virtual_hosts(0).domains(0) == "*");
    CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == kPods);
  }

  TEST_CASE("as apex of a split its own names mean the split, any other the pod") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.split = std::vector<WeightedCluster>{{kServerService, 1}};
    mesh.put(entry);
    const auto routes = mesh.routes(client_class(), "rds-outbound.80." + kFqdn);
    REQUIRE(routes.virtual_hosts_size() == 2);
    CHECK(routes.virtual_hosts(0).domains(0) == "server.server");
    CHECK(routes.virtual_hosts(0).routes(0).route().cluster() == "server/server|14001");
    CHECK(routes.virtual_hosts(1).domains(0) == "*");
    CHECK(routes.virtual_hosts(1).routes(0).route().cluster() == kPods);
  }

  TEST_CASE("as apex of a split its full name ends with the cluster's domain") {
    auto mesh = headless_mesh();
    auto entry = headless_entry();
    entry.split = std::vector<WeightedCluster>{{kServerService, 1}};
    mesh.put(entry);
    mesh.snapshot.config.proxy.cluster_domain = "example.internal";
    const auto routes = mesh.routes(client_class(), "rds-outbound.80." + kFqdn);
    const auto& domains = routes.virtual_hosts(0).domains();
    CHECK(std::vector<std::string>(domains.begin(), domains.end()) ==
          std::vector<std::string>{"server.server", "server.server:80", "server.server.svc",
                                   "server.server.svc:80", "server.server.svc.example.internal",
                                   "server.server.svc.example.internal:80"});
  }

  TEST_CASE("as apex of a split its TCP connections reach the pod that is dialled") {
    auto mesh = headless_mesh(Protocol::kTcp);
    auto entry = headless_entry(Protocol::kTcp);
    const auto before =
        mesh.encoded(client_class(), XdsType::kListener, "outbound_10.1.0.9_80")->any;
    entry.split = std::vector<WeightedCluster>{{kServerService, 0}};
    mesh.put(entry);
    CHECK(mesh.encoded(client_class(), XdsType::kListener, "outbound_10.1.0.9_80")->any == before);
  }

  TEST_CASE("at the pod any host is held to the very rules that a cluster IP's names are") {
    auto mesh = headless_mesh();
    auto listener = mesh.listener(server_class(), "inbound-listener");
    CHECK(routes_of(listener.filter_chains(0)) == "rds-inbound.14001." + kFqdn);
    const auto routes = mesh.routes(server_class(), "rds-inbound.14001." + kFqdn);
    CHECK(mesh.names(server_class(), XdsType::kRoute).size() == 1);
    const auto named = worked_example().routes(server_class(), "rds-inbound.14001");
    REQUIRE(routes.virtual_hosts_size() == 1);
    CHECK(routes.virtual_hosts(0).domains(0) == "*");
    CHECK(routes.virtual_hosts(0).routes_size() == 2);
    auto bare = routes.virtual_hosts(0), expected = named.virtual_hosts(0);
    bare.clear_domains();
    expected.clear_domains();
    CHECK(bare.routes(0).SerializeAsString() == expected.routes(0).SerializeAsString());
    CHECK(bare.routes(1).direct_response().status() == 404);
    CHECK(bare.typed_per_filter_config().at("http_rbac").SerializeAsString() ==
          expected.typed_per_filter_config().at("http_rbac").SerializeAsString());
  }
}
