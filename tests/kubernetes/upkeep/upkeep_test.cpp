// One object runs all upkeep of a replica and stops cleanly.
#include "osm/kubernetes/upkeep.hpp"
#include "kubernetes/mesh_resources.hpp"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>

#include "kubernetes/source/pods_yaml.hpp"
#include "kubernetes/upkeep/preset.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/object_status.hpp"
#include "osm/values/proxy.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

constexpr const char* kValidator = "libosm-validator-osm";

// Every object is applied by two proxies; of the rest nobody asks.
class QuietControlPlane final : public ControlPlane {
 public:
  std::string ads_address() const override { return ""; }
  MeshCataloger& catalog() const override { std::abort(); }
  ControlPlaneStatus status() const override { return {}; }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed.subscribe(std::move(on_change));
  }
  certificate::Subject proxy_subject(const Workload&) const override { return {}; }
  Result<certificate::CertificatePtr> issue_proxy_certificate(
      const Workload&, const std::string&, std::chrono::seconds,
      const certificate::Requester&) override {
    return Error{};
  }
  std::vector<Proxy> list_proxies() const override { return {}; }
  Result<std::string> config_dump(const std::string&) const override { return Error{}; }
  Result<ObjectStatus> object_status(const ObjectKey& key) const override {
    ObjectStatus status;
    status.object = key;
    status.phase = ObjectPhase::kApplied;
    status.concerned = status.applied = 2;
    return status;
  }
  Result<ObjectStatus> wait_until_applied(const ObjectKey& key,
                                          std::chrono::milliseconds) const override {
    return object_status(key);
  }
  void refresh_resources() override {}
  Status shutdown(std::chrono::milliseconds) override { return {}; }

  Notifier<> changed;
};

struct Fixture : UpkeepFixture {
  Fixture() {
    const certificate::Subject subject{CommonName("w"), SpiffeId("spiffe://cluster.local/w"),
                                       certificate::Usage::kController};
    REQUIRE(manager.issue_certificate(subject, 24h).ok());
    put(kConfigMaps, {{"metadata", {{"name", kPresetConfigMap}, {"namespace", "osm-system"}}},
                      {"data", {{kPresetKey, R"({"traffic":{"enableEgress":true}})"}}}});
    Object shop;
    shop.key = {kinds::kNamespace, "", "shop"};
    shop.labels["openservicemesh.io/monitored-by"] = "osm";
    store.put(std::move(shop));
  }

  ReplicaBoard& make_board(const std::string& replica) {
    auto& board = boards[replica];
    if (!board)
      board =
          make_replica_board({.cluster = cluster, .runtime = runtime, .replica = replica}).value();
    return *board;
  }
  std::unique_ptr<Upkeep> start(const std::string& replica) {
    ReplicaBoard& board = make_board(replica);
    const auto domains = [] { return TrustDomains(TrustDomain("cluster.local")); };
    auto started = start_upkeep(
        {.cluster = cluster,
         .runtime = runtime,
         .replica = replica,
         .kinds_repair = Repair::kCreate,
         .mutating_webhook = WebhookUpkeep{&manager, Repair::kCreate},
         .validating_webhook = WebhookUpkeep{&manager, Repair::kCreate},
         .board = &board,
         .follow_preset = true,
         .status = StatusUpkeep{control_plane, store},
         .secrets =
             SecretUpkeep{store, ProxyCertificateUpkeep{manager, domains,
                                                        [] { return std::chrono::hours(720); }}},
         .gateway = GatewayUpkeep{manager, spec, domains},
         .roots = RootsUpkeep{[this] { return roots; }, store}});
    REQUIRE_MESSAGE(started.ok(), (started.ok() ? "" : started.error().text()));
    return *std::move(started);
  }
  json::value ca_bundle() {
    return api.at(kValidatingWebhooks, "", kValidator)
        .at("webhooks")
        .at(0)
        .at("clientConfig")
        .at("caBundle");
  }
  // In the server and in the store.
  void put_policy(const Resource& resource, const std::string& ns, const std::string& name) {
    store.put(osm::testing::object_of(put(
        resource, {{"metadata", {{"name", name}, {"namespace", ns}}}, {"spec", json::object()}})));
  }
  bool has_status(const Resource& resource, const std::string& ns, const std::string& name) {
    return api.at(resource, ns, name).contains("status");
  }

  testing::MemoryCertificateManager manager{clock};
  testing::MemoryMeshSpec spec;
  std::vector<RootStatus> roots;
  QuietControlPlane control_plane;
  std::map<std::string, std::unique_ptr<ReplicaBoard>> boards;
};

}  // namespace

TEST_SUITE("kubernetes::Upkeep") {
  TEST_CASE_FIXTURE(Fixture, "one Upkeep maintains everything that is configured") {
    put_policy(kTcpRoutes, "shop", "events");
    const auto upkeep = start("a");
    executor.run_for(10s);
    CHECK(boards["a"]->leads());
    CHECK(api.count(kCrds) == 17);
    CHECK(api.count(kMutatingWebhooks) == 1);
    CHECK(api.count(kValidatingWebhooks) == 1);
    CHECK(upkeep->problems().empty());
    CHECK(api.at(kMeshConfigs, "osm-system", "osm-mesh-config")
              .at("spec")
              .at("traffic")
              .at("enableEgress") == true);
    CHECK(has_status(kTcpRoutes, "shop", "events"));
    put_policy(kTcpRoutes, "shop", "later");
    executor.run_for(2s);
    CHECK(has_status(kTcpRoutes, "shop", "later"));
  }

  TEST_CASE_FIXTURE(Fixture, "the webhooks trust the CA that the manager has now") {
    const auto upkeep = start("a");
    executor.run_for(1s);
    manager.set_trust_bundle_pem("new");
    executor.run_for(1s);
    CHECK(ca_bundle() == "bmV3");
    CHECK(metrics.sum("osm_reconciliation_total") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "only the holder of the Lease knows the state of bootstrap Secrets") {
    auto first = start("a");
    CHECK(first->stale_secrets() == std::nullopt);
    executor.run_for(5s);
    const auto second = start("b");
    executor.run_for(5s);
    CHECK(first->stale_secrets() == 0);
    CHECK(second->stale_secrets() == std::nullopt);
    manager.set_trust_bundle_pem("new");
    CHECK(first->stale_secrets() == std::nullopt);
    executor.run_for(1s);
    CHECK(first->stale_secrets() == 0);
    first.reset();
    executor.run_for(9s);
    CHECK(second->stale_secrets() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a root's object says how far it is, once more when it is made anew") {
    roots = {{.name = "next",
              .state = "validating",
              .role = "active",
              .since = {},
              .waiting_for = "a proxy"}};
    const auto upkeep = start("a");
    for (int i = 0; i < 2; ++i) {
      put_policy(kMeshRootCertificates, "osm-system", "next");
      executor.run_for(5s);
      const json::object held = api.at(kMeshRootCertificates, "osm-system", "next");
      CHECK(text_at(map_at(held, "status"), "state") == "validating");
      CHECK(text_at(map_at(held, "status"), "message") == "a proxy");
      REQUIRE(api.remove(kMeshRootCertificates, "osm-system", "next", {}).ok());
      store.remove({kinds::kMeshRootCertificate, "osm-system", "next"});
    }
  }

  TEST_CASE_FIXTURE(Fixture, "of two replicas one writes, and the other after its end") {
    auto first = start("a");
    executor.run_for(5s);
    auto second = start("b");
    executor.run_for(1min);
    CHECK(boards["a"]->leads());
    CHECK_FALSE(boards["b"]->leads());
    const std::size_t written = api.writes().size();
    put_policy(kTcpRoutes, "shop", "events");
    executor.run_for(5s);
    CHECK(has_status(kTcpRoutes, "shop", "events"));
    first.reset();
    CHECK_FALSE(boards["a"]->leads());
    executor.run_for(5s);
    CHECK(boards["b"]->leads());
    put_policy(kTcpRoutes, "shop", "later");
    executor.run_for(5s);
    CHECK(has_status(kTcpRoutes, "shop", "later"));
    CHECK(written > 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that is not the mesh's gets no status") {
    put_policy(kMeshConfigs, "shop", "mine");
    put_policy(kMeshConfigs, "osm-system", "osm-mesh-config");
    const auto upkeep = start("a");
    executor.run_for(1min);
    CHECK(has_status(kMeshConfigs, "osm-system", "osm-mesh-config"));
    CHECK_FALSE(has_status(kMeshConfigs, "shop", "mine"));
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a gateway's Secret that cannot be made is an Event of the MeshConfig") {
    put_policy(kMeshConfigs, "osm-system", "osm-mesh-config");
    MeshConfig config;
    config.certificates.ingress_gateway =
        IngressGatewayCertificate{{"a.example"}, 24h, "client", "ingress"};
    spec.set_mesh_config(config);
    api.set_fault([](const std::string& call) {
      return call == "create secrets ingress/client"
                 ? Status(Error{ErrorCode::kPermissionDenied, "forbidden"})
                 : Status();
    });
    const auto upkeep = start("a");
    executor.run_for(10s);
    CHECK(api.count(kEvents) == 1);
    CHECK(api.count(kSecrets) == 0);
    api.set_fault({});
    executor.run_for(10s);
    CHECK(api.count(kSecrets) == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "an injector needs no Lease for its webhook") {
    const auto upkeep =
        start_upkeep({.cluster = cluster,
                      .runtime = runtime,
                      .replica = "",
                      .mutating_webhook = WebhookUpkeep{&manager, Repair::kCreate}});
    REQUIRE(upkeep.ok());
    executor.run_for(1min);
    CHECK(api.count(kMutatingWebhooks) == 1);
    CHECK(api.count(kLeases) == 0);
    CHECK(api.count(kCrds) == 0);
    CHECK((*upkeep)->stale_secrets() == std::nullopt);
  }

  TEST_CASE_FIXTURE(Fixture, "a replica without a name is refused") {
    const auto nameless = start_upkeep(
        {.cluster = cluster, .runtime = runtime, .replica = "", .follow_preset = true});
    REQUIRE_FALSE(nameless.ok());
    CHECK(nameless.error().message.find("UpkeepOptions.replica") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "a part that one replica writes is refused without a board") {
    const auto alone = start_upkeep(
        {.cluster = cluster, .runtime = runtime, .replica = "a", .follow_preset = true});
    REQUIRE_FALSE(alone.ok());
    CHECK(alone.error().code == ErrorCode::kInvalidArgument);
    CHECK(alone.error().message.find("UpkeepOptions.board") == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "an upkeep that starts on a board that leads writes at once") {
    put_policy(kTcpRoutes, "shop", "events");
    ReplicaBoard& board = make_board("a");
    Subscription standing = board.stand({});
    executor.run_for(10s);
    REQUIRE(board.leads());
    auto upkeep = start("a");
    standing.reset();
    executor.run_for(5s);
    CHECK(board.leads());
    CHECK(has_status(kTcpRoutes, "shop", "events"));
    CHECK(upkeep->stale_secrets() == 0);
    upkeep.reset();
    CHECK_FALSE(board.leads());
  }

  TEST_CASE_FIXTURE(Fixture, "after the end nothing is written") {
    auto upkeep = start("a");
    executor.run_for(10s);
    upkeep.reset();
    boards.clear();
    CHECK(text_at(map_at(api.at(kLeases, "osm-system", "osm-controller-osm"), "spec"),
                  "holderIdentity") == "");
    api.forget_writes();
    put_policy(kTcpRoutes, "shop", "late");
    REQUIRE(api.remove(kValidatingWebhooks, "", kValidator, {}).ok());
    control_plane.changed.notify();
    manager.set_trust_bundle_pem("newer");
    api.forget_writes();
    executor.run_for(10min);
    CHECK(api.writes().empty());
    CHECK(api.watchers() == 0);
  }
}
