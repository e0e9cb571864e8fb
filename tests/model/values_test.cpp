// Protocols of ports, names of clusters, types of resources and lines of fields are read and
// written as documented.
#include <doctest/doctest.h>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/service.hpp"

using namespace osm;

namespace {

TEST_SUITE("protocol_of") {
  TEST_CASE("appProtocol leads, in any case, whatever the port is called") {
    CHECK(protocol_of("http", "tcp-x") == Protocol::kHttp);
    CHECK(protocol_of("GRPC", "") == Protocol::kGrpc);
    CHECK(protocol_of("Tcp", "http") == Protocol::kTcp);
    CHECK(protocol_of("tcp-server-first", "") == Protocol::kTcpServerFirst);
  }

  TEST_CASE("Kubernetes' own values of appProtocol are understood") {
    CHECK(protocol_of("kubernetes.io/h2c", "http-x") == Protocol::kH2c);
    CHECK(protocol_of("kubernetes.io/ws", "") == Protocol::kHttp);
    CHECK(protocol_of("kubernetes.io/wss", "") == Protocol::kTcp);
    CHECK(protocol_of("kubernetes.io/other", "") == std::nullopt);
    CHECK(is_http(Protocol::kH2c));
  }

  TEST_CASE("an appProtocol the mesh does not speak has no protocol, even if the name has") {
    CHECK(protocol_of("mongo", "http") == std::nullopt);
    CHECK(protocol_of("https", "") == std::nullopt);
    CHECK(protocol_of("http-x", "") == std::nullopt);
  }

  TEST_CASE("without appProtocol the port's name decides by its prefix, which ends in a dash") {
    CHECK(protocol_of("", "http-api") == Protocol::kHttp);
    CHECK(protocol_of("", "grpc-api") == Protocol::kGrpc);
    CHECK(protocol_of("", "tcp-db") == Protocol::kTcp);
    CHECK(protocol_of("", "tcp-server-first-mysql") == Protocol::kTcpServerFirst);
    CHECK(protocol_of("", "tcp-server") == Protocol::kTcp);
  }

  TEST_CASE("a name without a prefix is http, as in OSM v1.2, also that of a protocol") {
    CHECK(protocol_of("", "http") == Protocol::kHttp);
    CHECK(protocol_of("", "tcp") == Protocol::kHttp);
    CHECK(protocol_of("", "grpc") == Protocol::kHttp);
    CHECK(protocol_of("", "tcp-server-first") == Protocol::kTcp);  // its prefix is "tcp-"
    CHECK(protocol_of("", "tcpish") == Protocol::kHttp);
    CHECK(protocol_of("", "grpcweb") == Protocol::kHttp);
    CHECK(protocol_of("", "") == Protocol::kHttp);
    CHECK(protocol_of("", "metrics") == Protocol::kHttp);
  }

  TEST_CASE("every protocol's text is read back as it") {
    for (Protocol protocol : {Protocol::kHttp, Protocol::kGrpc, Protocol::kTcp,
                              Protocol::kTcpServerFirst, Protocol::kH2c})
      CHECK(protocol_of(protocol_text(protocol), "") == protocol);
  }
}

TEST_SUITE("MeshService") {
  TEST_CASE("clusters are named by namespace, service and target port") {
    const MeshService service{
        {"bookstore", "bookstore-v1"}, "http", Port{80}, Port{14001}, Protocol::kHttp};
    CHECK(service.cluster_name().str() == "bookstore/bookstore-v1|14001");
    CHECK(service.local_cluster_name().str() == "bookstore/bookstore-v1|14001|local");
    CHECK(service.fqdn() == "bookstore-v1.bookstore.svc.cluster.local");
  }
}

TEST_SUITE("XdsType") {
  TEST_CASE("every type URL is read back as its type, anything else as none") {
    for (XdsType type : kXdsTypes) CHECK(xds_type_of(xds_type_url(type)) == type);
    CHECK(xds_type_text(XdsType::kListener) == "LDS");
    CHECK(xds_type_of("envoy.config.cluster.v3.Cluster") == std::nullopt);
    CHECK(xds_type_of("") == std::nullopt);
  }

  TEST_CASE("the order of types is the order of unasked pushes") {
    std::string order;
    for (XdsType type : kXdsTypes) order += std::string(xds_type_text(type)) + ' ';
    CHECK(order == "SDS CDS EDS LDS RDS ");
  }
}

TEST_SUITE("ObjectSource") {
  const ObjectSource kSource{
      "mesh/a.yaml",
      3,
      {{"spec", 7}, {"spec.rules", 8}, {"spec.rules[0]", 9}, {"spec.rules[0].kind", 10}}};

  TEST_CASE("a field's line is its own, or its nearest ancestor's, or the document's") {
    CHECK(kSource.line_of("spec.rules[0].kind") == 10);
    CHECK(kSource.line_of("spec.rules[0].matches[2]") == 9);
    CHECK(kSource.line_of("spec.rules[1].name") == 8);
    CHECK(kSource.line_of("spec.destination.name") == 7);
    CHECK(kSource.line_of("metadata.labels.app") == 3);
    CHECK(kSource.line_of("") == 3);
    CHECK(kSource.line_of("[0]") == 3);
    CHECK(kSource.line_of("specification") == 3);
  }
}

TEST_SUITE("Problem") {
  const ObjectKey kTarget{kinds::kTrafficTarget, "bookstore", "buyer"};

  TEST_CASE("its text names file, line, object, field, cause and code") {
    CHECK(
        Problem{ErrorCode::kInvalidField, kTarget, "mesh/a.yaml", 12, "spec.rules[0].kind",
                "unknown kind 'X'; use HTTPRouteGroup or TCPRoute"}
            .text() ==
        "mesh/a.yaml:12: TrafficTarget bookstore/buyer: spec.rules[0].kind: unknown kind 'X'; use "
        "HTTPRouteGroup or TCPRoute [invalid-field]");
  }

  TEST_CASE("unknown parts are left out of a problem's text") {
    CHECK(Problem{ErrorCode::kUnreadableSource, {}, "mesh", 0, "", "permission denied"}.text() ==
          "mesh: permission denied [unreadable-source]");
    CHECK(Problem{ErrorCode::kInvalidField, kTarget, "", 0, "", "bad"}.text() ==
          "TrafficTarget bookstore/buyer: bad [invalid-field]");
    CHECK(ObjectKey{kinds::kNamespace, "", "bookstore"}.str() == "Namespace bookstore");
  }
}

TEST_SUITE("model::MeshSnapshot") {
  TEST_CASE("changes merge to the union of both generations") {
    model::Changes first;
    CHECK(first.empty());
    first.services.insert({"a", "b"});
    model::Changes second;
    second.endpoints.insert({"c", "d"});
    second.workloads.insert({"ns", ProxyId("x")});
    second.everything = true;
    first.merge(second);
    CHECK(first.everything);
    CHECK(first.services.size() == 1);
    CHECK(first.endpoints.size() == 1);
    CHECK(first.workloads.size() == 1);
    CHECK_FALSE(first.empty());
  }

  TEST_CASE(
      "upstreams come from the identity's policy, or in permissive mode from the whole mesh") {
    model::MeshSnapshot snapshot;
    const ServiceIdentity identity{"ns", "account"};
    REQUIRE(snapshot.upstreams_of(identity));
    CHECK(snapshot.upstreams_of(identity)->empty());

    const auto own = std::make_shared<const std::vector<model::Upstream>>(
        std::vector{model::Upstream{{"ns", "own"}, true, true, {}}});
    snapshot.policies = snapshot.policies.with(
        std::make_shared<const model::IdentityPolicy>(model::IdentityPolicy{identity, own, {}}));
    CHECK(snapshot.upstreams_of(identity) == own);
    CHECK(snapshot.upstreams_of({"ns", "other"})->empty());

    snapshot.config.proxy.permissive = true;
    REQUIRE(snapshot.upstreams_of(identity));
    CHECK(snapshot.upstreams_of(identity)->empty());
    snapshot.permissive_upstreams = own;
    CHECK(snapshot.upstreams_of({"ns", "other"}) == own);
  }
}

}  // namespace
