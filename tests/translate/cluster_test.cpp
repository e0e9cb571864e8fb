// Clusters pin identities, SNI, ALPN and TLS parameters.
#include "envoy/config/cluster/v3/cluster.pb.h"

#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;
using envoy::extensions::transport_sockets::tls::v3::SubjectAltNameMatcher;
using envoy::extensions::transport_sockets::tls::v3::TlsParameters;
using envoy::extensions::transport_sockets::tls::v3::UpstreamTlsContext;
using envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

namespace {

UpstreamTlsContext tls_of(const Cluster& cluster) {
  return unpack<UpstreamTlsContext>(cluster.transport_socket().typed_config());
}

std::vector<std::string> pinned(const Cluster& cluster) {
  std::vector<std::string> out;
  const UpstreamTlsContext tls = tls_of(cluster);
  const auto& validation =
      tls.common_tls_context().combined_validation_context().default_validation_context();
  for (const auto& matcher : validation.match_typed_subject_alt_names()) {
    CHECK(matcher.san_type() == SubjectAltNameMatcher::URI);
    out.push_back(matcher.matcher().exact());
  }
  return out;
}

}  // namespace

TEST_SUITE("translate::cluster") {
  TEST_CASE("an upstream cluster pins the exact identities, the SNI and the ALPN of its service") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.identities = {{"server", "blue"}, {"server", "green"}};
    mesh.put(entry);
    const auto cluster = mesh.cluster(client_class(), "server/server|14001");
    CHECK(pinned(cluster) == std::vector<std::string>{"spiffe://cluster.local/ns/server/sa/blue",
                                                      "spiffe://cluster.local/ns/server/sa/green"});
    CHECK(tls_of(cluster).sni() == "server.server.svc.cluster.local");
    CHECK(tls_of(cluster).common_tls_context().alpn_protocols(0) == "osm");
  }

  TEST_CASE("while trust domains change, identities of each are pinned, and nothing wider") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.identities = {{"server", "blue"}, {"server", "green"}};
    mesh.put(entry).domains({"cluster.local", "new.example"});
    const std::vector<std::string> both{
        "spiffe://cluster.local/ns/server/sa/blue", "spiffe://cluster.local/ns/server/sa/green",
        "spiffe://new.example/ns/server/sa/blue", "spiffe://new.example/ns/server/sa/green"};
    CHECK(pinned(mesh.cluster(client_class(), "server/server|14001")) == both);
    // Whose connections may still be open is nothing to a client, who makes new ones.
    mesh.snapshot.accepted_domains = {TrustDomain("new.example")};
    CHECK(pinned(mesh.cluster(client_class(), "server/server|14001")) ==
          std::vector<std::string>(both.begin() + 2, both.end()));
  }

  TEST_CASE("a service without identities is pinned to an identity that is never issued") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.identities.clear();
    mesh.put(entry);
    CHECK(pinned(mesh.cluster(client_class(), "server/server|14001")) ==
          std::vector<std::string>{"spiffe://cluster.local/osm/nobody"});
  }

  TEST_CASE("a cluster is the same for every client, whatever each may do") {
    auto mesh = worked_example();
    mesh.put({"other", "other"}, {{kServerService, false, true, {}}});
    const translate::ProxyClass other{{"other", "other"}, {}};
    CHECK(mesh.encoded(client_class(), XdsType::kCluster, "server/server|14001")->any ==
          mesh.encoded(other, XdsType::kCluster, "server/server|14001")->any);
  }

  TEST_CASE("only HTTP clusters have HTTP options") {
    CHECK(worked_example(Protocol::kGrpc)
              .cluster(client_class(), "server/server|14001")
              .typed_extension_protocol_options_size() == 1);
    CHECK(worked_example(Protocol::kTcp)
              .cluster(client_class(), "server/server|14001")
              .typed_extension_protocol_options_size() == 0);
  }

  TEST_CASE("a cluster that two service ports share speaks HTTP if one of them does") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 14001, Protocol::kTcp, "z"),
                   port(kServerService, 81, 14001, Protocol::kGrpc, "a")};
    mesh.put(entry);
    CHECK(mesh.cluster(client_class(), "server/server|14001")
              .typed_extension_protocol_options_size() == 1);
  }

  TEST_CASE("two service ports on one target port share one cluster") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 14001, Protocol::kHttp, "a"),
                   port(kServerService, 8080, 14001, Protocol::kHttp, "b")};
    mesh.put(entry);
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          std::vector<std::string>{"server/server|14001"});
  }

  TEST_CASE(
      "a named target port without endpoints gives a cluster of port 0, and endpoints: none") {
    auto mesh = worked_example();
    auto entry = server_entry();
    entry.ports = {port(kServerService, 80, 0)};
    mesh.put(entry);
    mesh.put(model::ServiceEndpoints{kServerService, {}});
    CHECK(mesh.names(client_class(), XdsType::kCluster) ==
          std::vector<std::string>{"server/server|0"});
    CHECK(mesh.assignment(client_class(), "server/server|0").endpoints(0).lb_endpoints().empty());
  }

  TEST_CASE("a workload is reached behind its own proxy on the loopback address") {
    const auto cluster = worked_example().cluster(server_class(), "server/server|14001|local");
    CHECK(cluster.type() == Cluster::STATIC);
    const auto& address =
        cluster.load_assignment().endpoints(0).lb_endpoints(0).endpoint().address();
    CHECK(address.socket_address().address() == "127.0.0.1");
    CHECK(address.socket_address().port_value() == 14001);
    CHECK_FALSE(cluster.has_transport_socket());
  }

  TEST_CASE("without Egresses the passthrough cluster exists only while egress is on") {
    auto mesh = worked_example();
    CHECK_FALSE(mesh.encoded(client_class(), XdsType::kCluster, "passthrough-outbound"));
    mesh.snapshot.config.proxy.egress = true;
    CHECK(mesh.cluster(client_class(), "passthrough-outbound").type() == Cluster::ORIGINAL_DST);
  }

  TEST_CASE("MeshConfig says which versions, suites and curves of TLS both sides offer") {
    auto mesh = worked_example();
    mesh.snapshot.config.proxy.tls = {TlsVersion::kTls13,
                                      TlsVersion::kAuto,
                                      {"ECDHE-ECDSA-AES128-GCM-SHA256"},
                                      {"X25519", "P-256"}};
    const auto upstream = tls_of(mesh.cluster(client_class(), "server/server|14001"));
    const auto listener = mesh.listener(server_class(), "inbound-listener");
    const auto downstream =
        unpack<DownstreamTlsContext>(listener.filter_chains(0).transport_socket().typed_config());
    for (const auto* context : {&upstream.common_tls_context(), &downstream.common_tls_context()}) {
      const auto& parameters = context->tls_params();
      CHECK(parameters.tls_minimum_protocol_version() == TlsParameters::TLSv1_3);
      CHECK(parameters.tls_maximum_protocol_version() == TlsParameters::TLS_AUTO);
      REQUIRE(parameters.cipher_suites_size() == 1);
      CHECK(parameters.cipher_suites(0) == "ECDHE-ECDSA-AES128-GCM-SHA256");
      REQUIRE(parameters.ecdh_curves_size() == 2);
      CHECK(parameters.ecdh_curves(1) == "P-256");
    }
  }

  TEST_CASE("a server that speaks HTTP/2 only is sent nothing else by its sidecar") {
    const auto options = [](const Cluster& cluster) {
      return unpack<HttpProtocolOptions>(
          cluster.typed_extension_protocol_options().begin()->second);
    };
    const std::string local = "server/server|14001|local";
    const auto mesh = worked_example(Protocol::kH2c);
    const auto h2c = options(mesh.cluster(server_class(Protocol::kH2c), local));
    CHECK(h2c.explicit_http_config().has_http2_protocol_options());
    CHECK(options(mesh.cluster(client_class(), "server/server|14001"))
              .has_use_downstream_protocol_config());
    CHECK(options(worked_example().cluster(server_class(), local))
              .has_use_downstream_protocol_config());
    translate::ProxyClass both = server_class();  // two Service ports on one target port
    both.own_ports.push_back(port(kServerService, 81, 14001, Protocol::kH2c));
    CHECK(options(mesh.cluster(both, local)).has_explicit_http_config());
  }

  TEST_CASE("a cluster names its endpoints and its two secrets") {
    const auto resource =
        worked_example().encoded(client_class(), XdsType::kCluster, "server/server|14001");
    using Reference = translate::EncodedResource::Reference;
    CHECK(resource->references ==
          std::vector<Reference>{{XdsType::kSecret, "root-cert"},
                                 {XdsType::kSecret, "service-cert"},
                                 {XdsType::kEndpoint, "server/server|14001"}});
  }
}
