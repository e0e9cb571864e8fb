// The gateway's certificate is kept in the Secret that MeshConfig names.
#include "kubernetes/upkeep/gateway_keeper.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "base/base64.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

const ObjectKey kConfig{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
constexpr const char* kCreate = "create secrets ingress/client";

struct Fixture : UpkeepFixture {
  Fixture() {
    ask(IngressGatewayCertificate{{"a.example", "b.example"}, 24h, "client", "ingress"});
  }

  void start() {
    const auto domains = [] { return TrustDomain("cluster.local"); };
    keeper.emplace(
        UpkeepOptions{.cluster = cluster,
                      .runtime = runtime,
                      .replica = "a",
                      .gateway = GatewayUpkeep{manager, spec, domains}},
        [this] { return leads; }, [this] { ++told; });
    executor.run_for(1s);
  }
  // Sets the gateway section of MeshConfig.
  void ask(std::optional<IngressGatewayCertificate> gateway) {
    MeshConfig config;
    config.certificates.ingress_gateway = std::move(gateway);
    spec.set_mesh_config(config);
  }
  json::object secret(const std::string& name = "client") {
    return api.at(kSecrets, "ingress", name);
  }
  certificate::CertificatePtr certificate() {
    const auto all = manager.list_certificates();
    return all.empty() ? nullptr : all.front();
  }
  // True if the Secret holds the manager's certificate and names it.
  bool is_current(const std::string& name = "client") {
    const auto now = certificate();
    const json::object held = secret(name);
    if (!now || held.empty()) return false;
    const json::value& data = held.at("data");
    return text_at(data, "tls.crt") == base64(now->chain_pem) &&
           text_at(data, "tls.key") == base64(now->private_key.pem()) &&
           text_at(data, "ca.crt") == base64(manager.trust_bundle_pem()) &&
           text_at(map_at(map_at(held, "metadata"), "annotations"),
                   "openservicemesh.io/certificate-fingerprint") == now->fingerprint;
  }
  json::object put_theirs(const std::string& name, json::object labels) {
    return put(
        kSecrets,
        {{"metadata", {{"name", name}, {"namespace", "ingress"}, {"labels", std::move(labels)}}},
         {"data", {{"private.key", "dGhlaXJz"}}}});
  }
  bool is_theirs(const std::string& name) {
    return text_at(map_at(secret(name), "data"), "private.key") == "dGhlaXJz" &&
           !map_at(secret(name), "data").contains("tls.key");
  }

  testing::MemoryCertificateManager manager{clock};
  testing::MemoryMeshSpec spec;
  bool leads = true;
  int told = 0;
  std::optional<GatewayKeeper> keeper;
};

}  // namespace

TEST_SUITE("kubernetes::GatewayKeeper") {
  TEST_CASE_FIXTURE(Fixture, "the gateway's certificate is in the Secret that MeshConfig names") {
    start();
    REQUIRE(certificate());
    CHECK(certificate()->subject ==
          certificate::Subject{CommonName("a.example"),
                               SpiffeId("spiffe://cluster.local/osm/gateway/a.example"),
                               certificate::Usage::kGateway,
                               {"a.example", "b.example"}});
    CHECK(certificate()->not_after - certificate()->not_before == 24h);
    CHECK(is_current());
    const json::object held = secret();
    CHECK(held.at("type") == "kubernetes.io/tls");
    const json::object& labels = map_at(map_at(held, "metadata"), "labels");
    CHECK(text_at(labels, kNameLabel) == kNameLabelValue);
    CHECK(text_at(labels, kInstanceLabel) == "osm");
    CHECK(keeper->problems().empty());
    CHECK(log.all_text().find(certificate()->private_key.pem()) == std::string::npos);
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a renewed certificate and new roots are written at once") {
    start();
    const json::object before = secret();
    REQUIRE(manager.rotate_certificate(CommonName("a.example")).ok());
    executor.run_for(1s);
    CHECK(secret() != before);
    CHECK(is_current());
    manager.set_trust_bundle_pem("other roots");
    executor.run_for(1s);
    CHECK(text_at(map_at(secret(), "data"), "ca.crt") == base64("other roots"));
    CHECK(is_current());
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that somebody deletes or changes is restored") {
    start();
    REQUIRE(api.remove(kSecrets, "ingress", "client", {}).ok());
    executor.run_for(2min);
    CHECK(is_current());
    api.edit(kSecrets, "ingress", "client",
             [](json::object& o) { o["data"].as_object()["tls.key"] = "bWluZQ=="; });
    executor.run_for(2min);
    CHECK(is_current());
    // Known by its UID then.
    api.edit(kSecrets, "ingress", "client",
             [](json::object& o) { o["metadata"].as_object().erase("labels"); });
    executor.run_for(2min);
    CHECK(text_at(map_at(map_at(secret(), "metadata"), "labels"), kNameLabel) == kNameLabelValue);
    CHECK(manager.issued() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "other names or another validity are another certificate") {
    start();
    ask(IngressGatewayCertificate{{"a.example", "c.example"}, 24h, "client", "ingress"});
    executor.run_for(1s);
    REQUIRE(certificate());
    CHECK(certificate()->subject.dns_names == std::vector<std::string>{"a.example", "c.example"});
    CHECK(is_current());
    ask(IngressGatewayCertificate{{"a.example", "c.example"}, 1h, "client", "ingress"});
    executor.run_for(1s);
    REQUIRE(certificate());
    CHECK(certificate()->not_after - certificate()->not_before == 1h);
    CHECK(is_current());
    ask(IngressGatewayCertificate{{"d.example"}, 1h, "client", "ingress"});
    executor.run_for(1s);
    CHECK(manager.list_certificates().size() == 1);
    CHECK(is_current());
  }

  TEST_CASE_FIXTURE(Fixture, "under another name the Secret is written before the old one goes") {
    start();
    api.forget_writes();
    ask(IngressGatewayCertificate{{"a.example", "b.example"}, 24h, "other", "ingress"});
    executor.run_for(1s);
    CHECK(is_current("other"));
    CHECK(api.writes() == std::vector<std::string>{"create secrets ingress/other",
                                                   "delete secrets ingress/client"});
    CHECK(manager.issued() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "without the section there is neither Secret nor certificate") {
    start();
    put_theirs("theirs", {{kNameLabel, kNameLabelValue}, {kInstanceLabel, "osm"}});
    ask(std::nullopt);
    executor.run_for(1s);
    CHECK(secret().empty());
    CHECK(manager.list_certificates().empty());
    CHECK(is_theirs("theirs"));
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is taken away while MeshConfig cannot be read") {
    start();
    spec.set_problems({Problem{ErrorCode::kInvalidField, kConfig, {}, 0, "spec", "is no map"}});
    ask(std::nullopt);
    executor.run_for(5min);
    CHECK_FALSE(secret().empty());
    spec.set_problems({});
    executor.run_for(1s);
    CHECK(secret().empty());
    ask(IngressGatewayCertificate{{"a.example"}, 24h, "client", "ingress"});
    executor.run_for(1s);
    spec.set_synced(false);
    ask(std::nullopt);
    executor.run_for(5min);
    CHECK_FALSE(secret().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that is not ours is left alone, and named") {
    // As the mesh's own CA is labelled.
    put_theirs("client", {{kNameLabel, kNameLabelValue}});
    start();
    executor.run_for(5min);
    CHECK(is_theirs("client"));
    REQUIRE(keeper->problems().size() == 1);
    const Problem problem = keeper->problems().front();
    CHECK(problem.object == kConfig);
    CHECK(problem.field == "spec.certificate.ingressGateway");
    CHECK(problem.cause.find("Secret ingress/client is there and is not the mesh's") == 0);
    ask(std::nullopt);
    executor.run_for(1s);
    CHECK(is_theirs("client"));
    CHECK(keeper->problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a grant that is missing is told once with its remedy, then used") {
    api.set_fault([](const std::string& call) {
      return call == kCreate ? Status(Error{ErrorCode::kPermissionDenied, "secrets is forbidden"})
                             : Status();
    });
    start();
    executor.run_for(1min);
    REQUIRE(keeper->problems().size() == 1);
    CHECK(keeper->problems().front().code == ErrorCode::kPermissionDenied);
    CHECK(keeper->problems().front().cause ==
          "Secret ingress/client cannot be made; allow it by `kubectl create rolebinding "
          "osm-ingress-gateway -n ingress --clusterrole=osm-injector-secrets-osm "
          "--serviceaccount=osm-system:osm-controller`: secrets is forbidden");
    CHECK(log.count("create rolebinding") == 1);
    CHECK(told == 1);
    api.set_fault({});
    executor.run_for(10s);
    CHECK(is_current());
    CHECK(keeper->problems().empty());
    CHECK(told == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a CA that does not sign is told, and the old certificate stays") {
    start();
    const json::object before = secret();
    manager.set_failure(Error{ErrorCode::kUnavailable, "the CA is away"});
    ask(IngressGatewayCertificate{{"new.example"}, 24h, "client", "ingress"});
    executor.run_for(1min);
    CHECK(secret() == before);
    REQUIRE(keeper->problems().size() == 1);
    CHECK(keeper->problems().front().cause == "the CA is away");
    manager.set_failure(std::nullopt);
    executor.run_for(10s);
    CHECK(is_current());
  }

  TEST_CASE_FIXTURE(Fixture, "a name that somebody else holds is not released for him") {
    const certificate::Subject theirs{CommonName("a.example"), SpiffeId("spiffe://d/theirs"),
                                      certificate::Usage::kWorkload};
    REQUIRE(manager.issue_certificate(theirs, 24h).ok());
    start();
    CHECK(keeper->problems().size() == 1);
    ask(std::nullopt);
    executor.run_for(1s);
    REQUIRE(certificate());
    CHECK(certificate()->subject == theirs);
  }

  TEST_CASE_FIXTURE(Fixture, "a new holder of the Lease writes its own Secret and cleans up once") {
    start();
    const json::object before = secret();
    leads = false;
    executor.run_for(2min);
    CHECK(manager.list_certificates().empty());
    api.forget_writes();
    ask(IngressGatewayCertificate{{"a.example"}, 24h, "other", "ingress"});
    executor.run_for(10min);
    CHECK(api.writes().empty());
    CHECK(secret() == before);
    leads = true;
    keeper->on_acquired();
    executor.run_for(1s);
    CHECK(is_current("other"));
    CHECK(secret().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "after the end nothing is written") {
    start();
    keeper->stop();
    api.forget_writes();
    ask(std::nullopt);
    executor.run_for(5min);
    CHECK(api.writes().empty());
    CHECK_FALSE(secret().empty());
  }
}
