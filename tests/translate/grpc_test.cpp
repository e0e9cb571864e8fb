// A gRPC library gets listeners by name, file certificates, pins and RBAC, and no field that it
// refuses; an Envoy offers it ALPN h2 on its ports only.
//
// Resources of gRPC libraries, which are proxies without Envoy (docs/adr/0065).
#include "envoy/extensions/filters/http/rbac/v3/rbac.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
using envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;
namespace http_rbac = envoy::extensions::filters::http::rbac::v3;

namespace {

const std::string kCluster = "server/server|14001";
const std::string kRoutes = "rds-outbound.80.server.server.svc.cluster.local";
const std::string kServing = "grpc/server/0.0.0.0:14001";

MeshService xds_port(const ServiceName& service = kServerService,
                     const std::string& name = "grpc-xds") {
  return port(service, 80, 14001, Protocol::kGrpc, name);
}

Mesh xds_mesh(const std::string& port_name = "grpc-xds") {
  Mesh mesh = worked_example(Protocol::kGrpc);
  model::ServiceEntry entry = server_entry(Protocol::kGrpc);
  entry.ports = {xds_port(kServerService, port_name)};
  mesh.put(std::move(entry));
  return mesh;
}

translate::ProxyClass library(translate::ProxyClass of) {
  of.grpc = true;
  return of;
}
translate::ProxyClass caller() { return library(client_class()); }
translate::ProxyClass envoy_server() { return {kServer, {xds_port()}}; }
translate::ProxyClass server() { return library(envoy_server()); }

HttpConnectionManager serving(const Mesh& mesh, const std::string& name = kServing) {
  return unpack<HttpConnectionManager>(
      mesh.listener(server(), name).default_filter_chain().filters(0).typed_config());
}

envoy::config::rbac::v3::RBAC rules(const Mesh& mesh) {
  return unpack<http_rbac::RBAC>(serving(mesh).http_filters(0).typed_config()).rules();
}

// The deprecated field is the one that gRPC reads.
std::vector<std::string> pinned(const UpstreamTlsContext& context) {
  std::vector<std::string> names;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  for (const auto& matcher :
       context.common_tls_context().validation_context().match_subject_alt_names())
    names.push_back(matcher.exact());
#pragma GCC diagnostic pop
  return names;
}

UpstreamTlsContext client_tls(const Mesh& mesh) {
  return unpack<UpstreamTlsContext>(
      mesh.cluster(caller(), kCluster).transport_socket().typed_config());
}

}  // namespace

TEST_SUITE("translate for gRPC libraries") {
  TEST_CASE("a client has a listener for each name that it may dial, all with one route") {
    const Mesh mesh = xds_mesh();
    CHECK(mesh.names(caller(), XdsType::kListener) ==
          std::vector<std::string>{"server.server.svc.cluster.local:80",
                                   "server.server.svc.cluster:80", "server.server.svc:80",
                                   "server.server:80"});
    for (const std::string& name : mesh.names(caller(), XdsType::kListener)) {
      const auto manager = unpack<HttpConnectionManager>(
          mesh.listener(caller(), name).api_listener().api_listener());
      CHECK(manager.rds().route_config_name() == kRoutes);
      CHECK(manager.rds().config_source().has_ads());
      REQUIRE(manager.http_filters_size() == 1);  // gRPC wants the router last
    }
    CHECK(mesh.names(caller(), XdsType::kRoute) == std::vector<std::string>{kRoutes});
    CHECK(mesh.routes(caller(), kRoutes).virtual_hosts(0).domains(0) == "*");
  }

  TEST_CASE("only ports with the name for gRPC libraries are theirs") {
    CHECK(xds_mesh("grpc-xds-api").names(caller(), XdsType::kListener).size() == 4);
    for (const std::string name : {"grpc", "grpc-api", "grpc-xdsapi"}) {
      const Mesh mesh = xds_mesh(name);
      for (const XdsType type : {XdsType::kListener, XdsType::kRoute, XdsType::kCluster})
        CHECK(mesh.names(caller(), type).empty());
    }
  }

  TEST_CASE("a cluster takes certificates from files and pins the backends' identities") {
    const Mesh mesh = xds_mesh();
    const Cluster cluster = mesh.cluster(caller(), kCluster);
    CHECK(cluster.transport_socket().name() == "envoy.transport_sockets.tls");
    CHECK(cluster.circuit_breakers().thresholds(0).max_requests().value() == 4294967295u);
    const UpstreamTlsContext context = client_tls(mesh);
    const auto& common = context.common_tls_context();
    CHECK(common.tls_certificate_provider_instance().instance_name() == "osm");
    CHECK(common.validation_context().ca_certificate_provider_instance().instance_name() == "osm");
    CHECK_FALSE(common.has_tls_params());  // gRPC would refuse the cluster
    CHECK(pinned(context) ==
          std::vector<std::string>{"spiffe://cluster.local/ns/server/sa/server"});
  }

  TEST_CASE("a service without identities pins a name that nobody has") {
    Mesh mesh = xds_mesh();
    model::ServiceEntry entry = server_entry(Protocol::kGrpc);
    entry.ports = {xds_port()};
    entry.identities.clear();
    mesh.put(std::move(entry));
    CHECK(pinned(client_tls(mesh)) == std::vector<std::string>{"spiffe://nobody/osm/nobody"});
  }

  TEST_CASE("localities have the weight of their hosts, and only here") {
    Mesh mesh = xds_mesh();
    Endpoint heavy = endpoint_at("10.1.0.8", 14001, kServer);
    heavy.weight = 4;
    mesh.put(model::ServiceEndpoints{kServerService,
                                     {endpoint_at("10.1.0.9", 14001, kServer), std::move(heavy)}});
    CHECK(mesh.assignment(caller(), kCluster).endpoints(0).load_balancing_weight().value() == 5);
    CHECK_FALSE(mesh.assignment(client_class(), kCluster).endpoints(0).has_load_balancing_weight());
  }

  TEST_CASE("a split's weights are the route's") {
    Mesh mesh = xds_mesh();
    std::vector<model::Upstream> upstreams{upstream(kServerService, {kServer})};
    for (const std::string name : {"v1", "v2"}) {
      const ServiceName backend{"server", name};
      model::ServiceEntry entry = server_entry(Protocol::kGrpc);
      entry.name = backend;
      entry.ports = {port(backend, 80, name == "v1" ? 15001 : 15002, Protocol::kGrpc, "grpc-xds")};
      mesh.put(std::move(entry));
      upstreams.push_back(upstream(backend, {kServer}));
    }
    mesh.put(kClient, upstreams);
    model::ServiceEntry apex = server_entry(Protocol::kGrpc);
    apex.ports = {xds_port()};
    apex.split = {{{"server", "v1"}, 10}, {{"server", "v2"}, 90}};
    mesh.put(std::move(apex));
    const auto routes = mesh.routes(caller(), kRoutes);
    const auto& clusters = routes.virtual_hosts(0).routes(0).route().weighted_clusters();
    REQUIRE(clusters.clusters_size() == 2);
    CHECK(clusters.clusters(0).name() == "server/v1|15001");
    CHECK(clusters.clusters(0).weight().value() == 10);
    CHECK(clusters.clusters(1).weight().value() == 90);
  }

  TEST_CASE("a server asks for certificates, and RBAC decides by the peer's identity") {
    const Mesh mesh = xds_mesh();
    CHECK(mesh.names(server(), XdsType::kListener) ==
          std::vector<std::string>{kServing, "grpc/server/[::]:14001"});
    CHECK(mesh.listener(server(), kServing).address().socket_address().address() == "0.0.0.0");
    CHECK(mesh.listener(server(), "grpc/server/[::]:14001").address().socket_address().address() ==
          "::");
    const auto context = unpack<DownstreamTlsContext>(
        mesh.listener(server(), kServing).default_filter_chain().transport_socket().typed_config());
    CHECK(context.require_client_certificate().value());
    CHECK(context.common_tls_context().tls_certificate_provider_instance().instance_name() ==
          "osm");
    const HttpConnectionManager manager = serving(mesh);
    CHECK(manager.route_config().virtual_hosts(0).routes(0).has_non_forwarding_action());
    REQUIRE(manager.http_filters_size() == 2);
    const auto rbac = rules(mesh);
    REQUIRE(rbac.policies().count("server/tt") == 1);
    CHECK(rbac.policies().at("server/tt").principals(0).authenticated().principal_name().exact() ==
          "spiffe://cluster.local/ns/client/sa/client");
  }

  TEST_CASE("a server without policies denies everything") {
    Mesh mesh = xds_mesh();
    mesh.put(kServer, {}, {});
    CHECK(rules(mesh).action() == envoy::config::rbac::v3::RBAC::ALLOW);
    CHECK(rules(mesh).policies().empty());
    CHECK(serving(mesh).http_filters_size() == 2);
  }

  TEST_CASE("a rule about a header that gRPC refuses allows nothing") {
    Mesh mesh = xds_mesh();
    const RoutePolicy refused{"a", "/a", {}, {{"grpc-timeout", "1S"}}};
    const RoutePolicy plain{"b", "/b", {}, {}};
    mesh.put(kServer, {},
             {http_target("mixed", {kClient}, {refused, plain}),
              http_target("refused", {kClient}, {refused})});
    const auto rbac = rules(mesh);
    REQUIRE(rbac.policies().size() == 1);
    CHECK(rbac.policies().at("server/mixed").permissions_size() == 1);
  }

  TEST_CASE("an Envoy offers ALPN h2 on these ports, to both sides, and on no others") {
    const Mesh mesh = xds_mesh();
    const auto context = unpack<UpstreamTlsContext>(
        mesh.cluster(client_class(), kCluster).transport_socket().typed_config());
    CHECK(context.common_tls_context().alpn_protocols_size() == 2);
    const Listener inbound = mesh.listener(envoy_server(), "inbound-listener");
    REQUIRE(inbound.filter_chains_size() == 2);
    const auto& chain = inbound.filter_chains(1);
    CHECK(chain.filter_chain_match().server_names_size() == 0);
    CHECK(chain.filter_chain_match().application_protocols(0) == "h2");
    CHECK(chain.filters(0).typed_config().value() ==
          inbound.filter_chains(0).filters(0).typed_config().value());
    const auto tls = unpack<DownstreamTlsContext>(chain.transport_socket().typed_config());
    CHECK(tls.require_client_certificate().value());
    CHECK(tls.common_tls_context().alpn_protocols(0) == "h2");

    const Mesh other = worked_example(Protocol::kGrpc);
    CHECK(unpack<UpstreamTlsContext>(
              other.cluster(client_class(), kCluster).transport_socket().typed_config())
              .common_tls_context()
              .alpn_protocols_size() == 1);
    CHECK(other.listener(server_class(Protocol::kGrpc), "inbound-listener").filter_chains_size() ==
          1);
  }
}
