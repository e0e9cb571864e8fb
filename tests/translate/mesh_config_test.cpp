// Tracing, external authorization and health checks appear only while they are on.
#include <algorithm>
#include <functional>

#include "envoy/config/trace/v3/zipkin.pb.h"
#include "envoy/extensions/filters/http/ext_authz/v3/ext_authz.pb.h"
#include "envoy/extensions/filters/http/health_check/v3/health_check.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::config::trace::v3::ZipkinConfig;
using envoy::extensions::filters::http::ext_authz::v3::ExtAuthz;
using envoy::extensions::filters::http::health_check::v3::HealthCheck;
using envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
using envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

namespace {

const std::string kCollector = "envoy-tracing-cluster";
const std::string kAuthorizer = "envoy-authorization-cluster";

HttpConnectionManager manager_of(const Listener& listener) {
  const auto& filters = listener.filter_chains(0).filters();
  return unpack<HttpConnectionManager>(filters[filters.size() - 1].typed_config());
}

HttpConnectionManager outbound(const Mesh& mesh) {
  return manager_of(mesh.listener(client_class(), "outbound_10.96.10.7_80"));
}

HttpConnectionManager inbound(const Mesh& mesh, Protocol protocol = Protocol::kHttp) {
  return manager_of(mesh.listener(server_class(protocol), "inbound-listener"));
}

std::vector<std::string> filter_names(const HttpConnectionManager& manager) {
  std::vector<std::string> names;
  for (const auto& filter : manager.http_filters()) names.push_back(filter.name());
  return names;
}

Mesh traced(Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  mesh.snapshot.config.proxy.tracing = {true, "collector.example", Port{9411}, "/api/v2/spans"};
  return mesh;
}

Mesh authorized(Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  mesh.snapshot.config.proxy.external_authorization = {.enabled = true,
                                                       .address = "authorizer.example",
                                                       .port = Port{9191},
                                                       .timeout = std::chrono::milliseconds(1500)};
  return mesh;
}

Mesh probed(Protocol protocol = Protocol::kHttp) {
  Mesh mesh = worked_example(protocol);
  mesh.snapshot.config.proxy.active_health_checks = true;
  return mesh;
}

bool refers_to(const Mesh& mesh, const translate::ProxyClass& of, const std::string& listener,
               const std::string& cluster) {
  const auto encoded = mesh.encoded(of, XdsType::kListener, listener);
  REQUIRE(encoded);
  const auto& found = encoded->references;
  return std::count(found.begin(), found.end(),
                    translate::EncodedResource::Reference{XdsType::kCluster, cluster}) == 1;
}

std::vector<std::string> bytes_of(const Mesh& mesh, const translate::ProxyClass& of, XdsType type) {
  std::vector<std::string> out;
  for (const auto& input : mesh.inputs(of, type)) out.push_back(input->encode().any);
  return out;
}

}  // namespace

TEST_SUITE("translate MeshConfig") {
  TEST_CASE("with tracing both sides send spans to the collector's cluster, which both name") {
    const Mesh mesh = traced();
    for (const auto& manager : {outbound(mesh), inbound(mesh)}) {
      CHECK(manager.tracing().provider().name() == "envoy.tracers.zipkin");
      CHECK(manager.tracing().verbose());
      const auto zipkin = unpack<ZipkinConfig>(manager.tracing().provider().typed_config());
      CHECK(zipkin.collector_cluster() == kCollector);
      CHECK(zipkin.collector_endpoint() == "/api/v2/spans");
      CHECK(zipkin.collector_endpoint_version() == ZipkinConfig::HTTP_JSON);
    }
    CHECK(refers_to(mesh, client_class(), "outbound_10.96.10.7_80", kCollector));
    CHECK(refers_to(mesh, server_class(), "inbound-listener", kCollector));
    CHECK_FALSE(outbound(worked_example()).has_tracing());
    CHECK_FALSE(inbound(worked_example()).has_tracing());
  }

  TEST_CASE("a collector is found by name or address, and no proxy waits for its name") {
    auto mesh = traced();
    const auto named = mesh.cluster(client_class(), kCollector);
    CHECK(named.type() == Cluster::LOGICAL_DNS);
    CHECK(named.has_wait_for_warm_on_init());
    CHECK_FALSE(named.wait_for_warm_on_init().value());
    const auto& address = named.load_assignment().endpoints(0).lb_endpoints(0).endpoint().address();
    CHECK(address.socket_address().address() == "collector.example");
    CHECK(address.socket_address().port_value() == 9411);
    for (const char* literal : {"10.1.0.7", "fd00::7"}) {
      mesh.snapshot.config.proxy.tracing.address = literal;
      CHECK(mesh.cluster(server_class(), kCollector).type() == Cluster::STATIC);
    }
  }

  TEST_CASE("an authorizer follows RBAC, and its errors are refusals") {
    const Mesh mesh = authorized();
    const auto manager = inbound(mesh);
    CHECK(filter_names(manager) == std::vector<std::string>{"http_header_names", "http_rbac",
                                                            "http_local_rate_limit",
                                                            "http_external_authz", "http_router"});
    const auto check = unpack<ExtAuthz>(manager.http_filters(3).typed_config());
    CHECK(check.grpc_service().envoy_grpc().cluster_name() == kAuthorizer);
    CHECK(check.grpc_service().timeout().seconds() == 1);
    CHECK(check.grpc_service().timeout().nanos() == 500'000'000);
    CHECK_FALSE(check.failure_mode_allow());
    CHECK(check.stat_prefix() == "inboundExtAuthz");
    CHECK(check.with_request_body().max_request_bytes() == 8192);
    CHECK(check.with_request_body().allow_partial_message());
    CHECK(refers_to(mesh, server_class(), "inbound-listener", kAuthorizer));

    const auto cluster = mesh.cluster(server_class(), kAuthorizer);
    CHECK(cluster.type() == Cluster::STRICT_DNS);
    CHECK(unpack<HttpProtocolOptions>(cluster.typed_extension_protocol_options().at(
                                          "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"))
              .explicit_http_config()
              .has_http2_protocol_options());
  }

  TEST_CASE("requests pass an authorizer that does not answer only where MeshConfig says so") {
    Mesh mesh = authorized();
    mesh.snapshot.config.proxy.external_authorization.failure_mode_allow = true;
    CHECK(unpack<ExtAuthz>(inbound(mesh).http_filters(3).typed_config()).failure_mode_allow());
  }

  TEST_CASE("the authorizer gets no bodies of gRPC ports") {
    const auto manager = inbound(authorized(Protocol::kGrpc), Protocol::kGrpc);
    CHECK_FALSE(unpack<ExtAuthz>(manager.http_filters(3).typed_config()).has_with_request_body());
  }

  TEST_CASE("the authorizer gets no bodies of a target port that HTTP and gRPC share") {
    const translate::ProxyClass of{kServer,
                                   {port(kServerService, 80, 14001, Protocol::kHttp, "a"),
                                    port(kServerService, 81, 14001, Protocol::kGrpc, "b")}};
    const auto listener = authorized().listener(of, "inbound-listener");
    REQUIRE(listener.filter_chains_size() == 1);
    const auto manager = manager_of(listener);
    CHECK_FALSE(unpack<ExtAuthz>(manager.http_filters(3).typed_config()).has_with_request_body());
  }

  TEST_CASE("without an authorizer's address every request is refused") {
    Mesh mesh = authorized();
    mesh.snapshot.config.proxy.external_authorization.address.clear();
    CHECK(filter_names(inbound(mesh)).at(3) == "http_external_authz");
    const auto cluster = mesh.cluster(server_class(), kAuthorizer);
    CHECK(cluster.type() == Cluster::STATIC);
    CHECK(cluster.load_assignment().endpoints().empty());
  }

  TEST_CASE("clients are not authorized and name no authorizer") {
    const Mesh mesh = authorized();
    CHECK(filter_names(outbound(mesh)) == std::vector<std::string>{"http_router"});
    CHECK_FALSE(mesh.encoded(client_class(), XdsType::kCluster, kAuthorizer));
  }

  TEST_CASE("clients probe endpoints of HTTP clusters, and only the mesh takes endpoints away") {
    const auto cluster = probed().cluster(client_class(), "server/server|14001");
    REQUIRE(cluster.health_checks_size() == 1);
    const auto& check = cluster.health_checks(0);
    CHECK(check.timeout().seconds() == 1);
    CHECK(check.interval().seconds() == 10);
    CHECK(check.unhealthy_threshold().value() == 3);
    CHECK(check.healthy_threshold().value() == 1);
    CHECK(check.http_health_check().host() == "server.server.svc.cluster.local");
    CHECK(check.http_health_check().path() == "/healthz/osm");
    CHECK(check.http_health_check().request_headers_to_add(0).header().key() ==
          "x-osm-envoy-healthcheck");
    CHECK(cluster.ignore_health_on_host_removal());
    CHECK(worked_example().cluster(client_class(), "server/server|14001").health_checks().empty());
  }

  TEST_CASE("a probe is answered before any policy, and is in no log") {
    const auto manager = inbound(probed());
    CHECK(filter_names(manager) ==
          std::vector<std::string>{"http_health_check", "http_header_names", "http_rbac",
                                   "http_local_rate_limit", "http_router"});
    const auto answer = unpack<HealthCheck>(manager.http_filters(0).typed_config());
    CHECK_FALSE(answer.pass_through_mode().value());
    REQUIRE(answer.headers_size() == 2);
    CHECK(answer.headers(0).name() == ":path");
    CHECK(answer.headers(0).string_match().exact() == "/healthz/osm");
    CHECK(answer.headers(1).name() == "x-osm-envoy-healthcheck");
    CHECK(answer.headers(1).present_match());
    CHECK(manager.access_log(0).filter().has_not_health_check_filter());
    CHECK_FALSE(inbound(worked_example()).access_log(0).has_filter());
  }

  TEST_CASE("TCP is neither traced nor authorized nor probed") {
    const auto plain = worked_example(Protocol::kTcp);
    for (Mesh mesh : {traced(Protocol::kTcp), authorized(Protocol::kTcp), probed(Protocol::kTcp)})
      for (const auto& of : {client_class(), server_class(Protocol::kTcp)})
        for (const XdsType type : kXdsTypes)
          CHECK(bytes_of(mesh, of, type) == bytes_of(plain, of, type));
  }

  TEST_CASE("a moved server drains no connection: only clusters change") {
    const auto check = [](Mesh mesh, const std::function<void(MeshConfig&)>& move) {
      const auto before = mesh;
      move(mesh.snapshot.config);
      const auto of = server_class();
      CHECK(bytes_of(mesh, of, XdsType::kListener) == bytes_of(before, of, XdsType::kListener));
      CHECK(bytes_of(mesh, of, XdsType::kRoute) == bytes_of(before, of, XdsType::kRoute));
      CHECK(bytes_of(mesh, of, XdsType::kCluster) != bytes_of(before, of, XdsType::kCluster));
    };
    check(traced(), [](MeshConfig& config) { config.proxy.tracing.address = "other.example"; });
    check(traced(), [](MeshConfig& config) { config.proxy.tracing.port = Port{1}; });
    check(authorized(),
          [](MeshConfig& config) { config.proxy.external_authorization.port = Port{1}; });
  }

  TEST_CASE("a disabled section has no effect, whatever its other fields") {
    Mesh mesh = worked_example();
    mesh.snapshot.config.proxy.tracing = {false, "collector.example", Port{1}, "/x"};
    mesh.snapshot.config.proxy.external_authorization = {.address = "authorizer.example"};
    mesh.snapshot.config.certificates.ingress_gateway =
        IngressGatewayCertificate{{"gateway.example"}, {}, {}, {}};
    const auto plain = worked_example();
    for (const auto& of : {client_class(), server_class()}) {
      for (const XdsType type : kXdsTypes) {
        const auto now = mesh.inputs(of, type), then = plain.inputs(of, type);
        REQUIRE(now.size() == then.size());
        for (std::size_t i = 0; i < now.size(); ++i) CHECK(now[i]->key() == then[i]->key());
      }
    }
  }
}
