// Every TLS context names its peers (docs/security.md, threats 6, 11 and 12).
#include <doctest/doctest.h>

#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "security/atoms.hpp"

using namespace osm;
using namespace osm::security_test;
namespace tls = envoy::extensions::transport_sockets::tls::v3;

namespace {

constexpr const char* kTlsSocket = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.";

struct Seen {
  int upstream = 0, downstream = 0, plain = 0, ingress = 0;
};

void check_common(const tls::CommonTlsContext& context) {
  CHECK(context.tls_params().tls_minimum_protocol_version() == tls::TlsParameters::TLSv1_2);
  REQUIRE(context.tls_certificate_sds_secret_configs_size() == 1);
  CHECK(context.has_combined_validation_context());
  const auto& validation = context.combined_validation_context();
  CHECK(validation.validation_context_sds_secret_config().name() == translate::kRootCertSecret);
  const auto& pinned = validation.default_validation_context();
  CHECK(pinned.trust_chain_verification() == tls::CertificateValidationContext::VERIFY_TRUST_CHAIN);
  CHECK_FALSE(pinned.allow_expired_certificate());
  CHECK(pinned.match_typed_subject_alt_names_size() > 0);
  for (const auto& matcher : pinned.match_typed_subject_alt_names())
    CHECK(matcher.san_type() == tls::SubjectAltNameMatcher::URI);
}

// Every upstream identity is written out in full: no prefix, suffix or regex.
void check_upstream(const google::protobuf::Any& socket, const std::set<std::string>& known) {
  const auto context = translate_test::unpack<tls::UpstreamTlsContext>(socket);
  check_common(context.common_tls_context());
  CHECK_FALSE(context.sni().empty());
  for (const auto& matcher : context.common_tls_context()
                                 .combined_validation_context()
                                 .default_validation_context()
                                 .match_typed_subject_alt_names()) {
    REQUIRE(matcher.matcher().has_exact());
    CHECK_FALSE(matcher.matcher().ignore_case());
    CHECK(known.contains(matcher.matcher().exact()));
  }
}

void check_downstream(const google::protobuf::Any& socket) {
  const auto context = translate_test::unpack<tls::DownstreamTlsContext>(socket);
  check_common(context.common_tls_context());
  CHECK(context.require_client_certificate().value());
  for (const auto& matcher : context.common_tls_context()
                                 .combined_validation_context()
                                 .default_validation_context()
                                 .match_typed_subject_alt_names())
    CHECK(matcher.matcher().prefix() == "spiffe://cluster.local/ns/");
}

// A cluster of a Service is "namespace/name|port"; others stay on the machine or leave the mesh.
bool leads_to_no_service(const translate_test::Cluster& cluster) {
  return cluster.name().ends_with("|local") || cluster.name().find('/') == std::string::npos;
}

void check_class(const model::MeshSnapshot& mesh, const translate::ProxyClass& proxy_class,
                 const std::set<std::string>& known, Seen& seen) {
  for (const auto& input : translate::inputs_for(mesh, proxy_class, XdsType::kCluster)) {
    const auto cluster = unpacked<translate_test::Cluster>(input->encode());
    CAPTURE(cluster.name());
    CHECK(cluster.transport_socket_matches_size() == 0);
    if (leads_to_no_service(cluster)) {
      CHECK_FALSE(cluster.has_transport_socket());
      ++seen.plain;
      continue;
    }
    ++seen.upstream;
    REQUIRE(cluster.transport_socket().typed_config().type_url() ==
            std::string(kTlsSocket) + "UpstreamTlsContext");
    check_upstream(cluster.transport_socket().typed_config(), known);
  }
  for (const auto& input : translate::inputs_for(mesh, proxy_class, XdsType::kListener)) {
    const auto listener = unpacked<translate_test::Listener>(input->encode());
    if (listener.name() != "inbound-listener") continue;
    CHECK_FALSE(listener.has_default_filter_chain());
    for (const auto& chain : listener.filter_chains()) {
      CAPTURE(chain.name());
      if (chain.name().starts_with("ingress_")) {  // of gateways outside, by their addresses
        ++seen.ingress;
        CHECK(chain.filter_chain_match().transport_protocol() == "raw_buffer");
        CHECK_FALSE(chain.has_transport_socket());
        continue;
      }
      ++seen.downstream;
      CHECK(chain.filter_chain_match().transport_protocol() == "tls");
      REQUIRE(chain.transport_socket().typed_config().type_url() ==
              std::string(kTlsSocket) + "DownstreamTlsContext");
      check_downstream(chain.transport_socket().typed_config());
    }
  }
}

// The identities of the mesh as SANs, and the one that nobody has.
std::set<std::string> known_identities(const model::MeshSnapshot& mesh) {
  std::set<std::string> known{"spiffe://cluster.local/osm/nobody"};
  for (const auto& service : mesh.services)
    for (const ServiceIdentity& identity : service->identities)
      known.insert(spiffe_id(mesh.accepted_domains.front(), identity).str());
  return known;
}

}  // namespace

TEST_SUITE("security.identities") {
  TEST_CASE("every way to a service pins its identities, every way in asks for a certificate") {
    RandomMesh mesh(osm::testing::seed());
    Seen seen;
    // Gateways are rare in a random mesh: it may take more rounds until there were enough.
    for (int round = 0; round < 80 || (seen.ingress <= 30 && round < 800); ++round) {
      mesh.set_mode(round % 2 == 1, round % 4 > 1);
      for (int i = 0; i < 4; ++i)
        mesh.change(RandomMesh::namespace_name(mesh.pick(RandomMesh::kNamespaces)));
      const SnapshotPtr now = mesh.snapshot();
      const auto known = known_identities(*now);
      for (const auto& proxy_class : RandomMesh::classes(*now)) {
        CAPTURE(round);
        CAPTURE(proxy_class.identity.str());
        check_class(*now, proxy_class, known, seen);
      }
    }
    CHECK(seen.upstream > 300);
    CHECK(seen.downstream > 300);
    CHECK(seen.ingress > 30);
    CHECK(seen.plain > 300);
  }

  TEST_CASE("a service without workloads is pinned to an identity that is never issued") {
    translate_test::Mesh mesh;
    auto entry = translate_test::server_entry();
    entry.identities.clear();
    mesh.put(entry);
    mesh.put(translate_test::kClient,
             {translate_test::upstream(translate_test::kServerService, {})});
    const auto cluster = mesh.cluster(translate_test::client_class(), "server/server|14001");
    const auto known = std::set<std::string>{"spiffe://cluster.local/osm/nobody"};
    check_upstream(cluster.transport_socket().typed_config(), known);
    // No parser takes it for a workload or a proxy.
    CHECK_FALSE(
        model::parse_proxy_spiffe_id(mesh.snapshot.accepted_domains.front(), *known.begin()).ok());
    CHECK_FALSE(
        known.begin()->starts_with(workload_spiffe_prefix(mesh.snapshot.accepted_domains.front())));
  }
}
