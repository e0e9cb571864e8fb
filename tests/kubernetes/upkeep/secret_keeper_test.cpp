// Bootstrap Secrets are owned by their pods, and orphans are deleted after ten minutes.
#include "kubernetes/upkeep/secret_keeper.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "kubernetes/source/pods_yaml.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;
using osm::testing::uuid_of;

namespace {

struct Fixture : UpkeepFixture {
  void start() {
    keeper.emplace(UpkeepOptions{.cluster = cluster,
                                 .runtime = runtime,
                                 .replica = "a",
                                 .board = board.get(),
                                 .secrets = SecretUpkeep{store},
                                 .secrets_by_namespace = by_namespace},
                   [this] { return leads; });
    told =
        store.subscribe([this](const std::vector<ObjectKey>& keys) { keeper->on_objects(keys); });
  }
  static std::string name_of(int n) { return "envoy-bootstrap-config-" + uuid_of(n); }
  json::object put_secret(const std::string& name, json::object labels = ours()) {
    return put(kSecrets, {{"metadata",
                           {{"name", name}, {"namespace", "shop"}, {"labels", std::move(labels)}}},
                          {"data", {{"sds_key.pem", "c2VjcmV0"}}}});
  }
  static json::object ours() { return {{kNameLabel, kNameLabelValue}, {kInstanceLabel, "osm"}}; }
  void put_pod(int n, const std::string& name, const std::string& created = "2024-01-01T00:00:00Z",
               const std::string& secret = "") {
    const json::object pod{
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", name},
          {"namespace", "shop"},
          {"uid", "uid-" + name},
          {"creationTimestamp", created},
          {"labels", {{"osm-proxy-uuid", uuid_of(n)}}}}},
        {"spec",
         {{"volumes", json::array{json::object{
                          {"name", "envoy"},
                          {"secret", {{"secretName", secret.empty() ? name_of(n) : secret}}}}}}}}};
    store.put(osm::testing::object_of(pod));
    put(kPods,
        {{"metadata",
          {{"name", name}, {"namespace", "shop"}, {"labels", {{"osm-proxy-uuid", uuid_of(n)}}}}}});
  }
  // The name of the Pod that owns the Secret of `n`; "none", or "gone".
  std::string owner_of(int n) { return owner_of(name_of(n)); }
  std::string owner_of(const std::string& name) {
    const json::object secret = api.at(kSecrets, "shop", name);
    if (secret.empty()) return "gone";
    const json::array& owners = list_at(map_at(secret, "metadata"), "ownerReferences");
    if (owners.empty()) return "none";
    CHECK(owners[0].at("kind") == "Pod");
    CHECK(owners[0].at("apiVersion") == "v1");
    CHECK(text_at(owners[0], "uid") == "uid-" + text_at(owners[0], "name"));
    CHECK(secret.at("data").at("sds_key.pem") == "c2VjcmV0");
    return text_at(owners[0], "name");
  }

  // An account with rights on Secrets in `allowed` only.
  void start_by_namespace() {
    by_namespace = true;
    api.set_fault([this](const std::string& call) {
      if (call.find(" secrets ") == std::string::npos) return Status();
      const std::string place = call.substr(call.rfind(' ') + 1);
      if (allowed.contains(place.substr(0, place.find('/')))) return Status();
      return Status(Error{ErrorCode::kPermissionDenied, "secrets is forbidden: " + call});
    });
    start();
  }
  void put_namespace(const std::string& name, const std::string& mesh) {
    Object object = osm::testing::object_of(
        {{"apiVersion", "v1"},
         {"kind", "Namespace"},
         {"metadata", {{"name", name}, {"labels", {{spec::kMonitoredByLabel, mesh}}}}}});
    store.put(std::move(object));
  }

  bool by_namespace = false;
  std::set<std::string> allowed{"shop"};
  bool leads = true;
  std::unique_ptr<ReplicaBoard> board = make_local_board("a", executor);
  std::optional<SecretKeeper> keeper;
  Subscription told;
};

}  // namespace

TEST_SUITE("kubernetes::SecretKeeper") {
  TEST_CASE_FIXTURE(Fixture, "a Secret belongs to its Pod a second after that came") {
    start();
    executor.run_for(30s);
    put_secret(name_of(1));
    put_pod(1, "web-0");
    executor.run_for(1s);
    CHECK(owner_of(1) == "web-0");
    api.forget_writes();
    executor.run_for(1h);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret of OSM v1.2 is left alone") {
    json::object labels = ours();
    labels[kVersionLabel] = "v1.2.4";
    put_secret(name_of(1), labels);
    put_secret(name_of(2), labels);
    put_pod(1, "web-0");
    api.forget_writes();
    start();
    executor.run_for(1h);
    CHECK(owner_of(1) == "none");
    CHECK(owner_of(2) == "none");
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "Secrets that came without a watch are found by the sweep") {
    put_secret(name_of(1));
    put_pod(1, "web-0");
    start();
    executor.run_for(2s);
    CHECK(owner_of(1) == "web-0");
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret whose Pod never comes is deleted after ten minutes") {
    start();
    executor.run_for(5s);
    put_secret(name_of(1));
    executor.run_for(9min);
    CHECK(owner_of(1) == "none");
    executor.run_for(4min);
    CHECK(owner_of(1) == "gone");
    CHECK(metrics.value("osm_bootstrap_secrets_collected_total") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a controller that has just started deletes nothing at first sight") {
    put_secret(name_of(1));
    clock.advance(1h);
    start();
    executor.run_for(10s);
    CHECK(owner_of(1) == "none");
    executor.run_for(2min);
    CHECK(owner_of(1) == "gone");
  }

  TEST_CASE_FIXTURE(Fixture, "a repeated holder of the Lease deletes nothing at first sight") {
    put_secret(name_of(1));
    clock.advance(1h);
    start();
    for (int i = 0; i < 50; ++i) {
      keeper->on_acquired();
      executor.run_for(1s);
    }
    CHECK(owner_of(1) == "none");
    executor.run_for(1min);
    CHECK(owner_of(1) == "gone");
  }

  TEST_CASE_FIXTURE(Fixture, "a new holder of the Lease checks all Secrets at once") {
    leads = false;
    start();
    put_secret(name_of(1));
    put_pod(1, "web-0");
    executor.run_for(30s);
    CHECK(owner_of(1) == "none");
    leads = true;
    keeper->on_acquired();
    executor.run_until_idle();
    CHECK(owner_of(1) == "web-0");
  }

  TEST_CASE_FIXTURE(Fixture,
                    "nothing is deleted while Pods are not known, or this is not our turn") {
    put_secret(name_of(1));
    store.set_synced(false);
    start();
    executor.run_for(1h);
    CHECK(owner_of(1) == "none");
    store.set_synced(true);
    leads = false;
    executor.run_for(1h);
    CHECK(owner_of(1) == "none");
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a Pod that the store does not know yet keeps its Secret") {
    put_secret(name_of(1));
    put(kPods, {{"metadata",
                 {{"name", "web-0"},
                  {"namespace", "shop"},
                  {"labels", {{"osm-proxy-uuid", uuid_of(1)}}}}}});
    start();
    executor.run_for(1h);
    CHECK(owner_of(1) == "none");
  }

  TEST_CASE_FIXTURE(Fixture, "Secrets that are not ours are never touched") {
    const std::vector<std::string> theirs{"web-tls", name_of(2), name_of(3),
                                          "envoy-bootstrap-config-mine"};
    put_secret(theirs[0], ours());
    put_secret(theirs[1], {{kNameLabel, kNameLabelValue}, {kInstanceLabel, "another-mesh"}});
    put_secret(theirs[2], {});
    put_secret(theirs[3], ours());
    clock.advance(1h);
    put_pod(2, "two");
    put_pod(3, "three");
    start();
    executor.run_for(1h);
    for (const std::string& name : theirs) CHECK(owner_of(name) == "none");
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "of Pods that claim one Secret the oldest that mounts it gets it") {
    start();
    executor.run_for(5s);
    put_secret(name_of(1));
    put_pod(1, "older-without", "2023-01-01T00:00:00Z", "another");
    put_pod(1, "younger", "2024-01-02T00:00:00Z");
    put_pod(1, "older", "2024-01-01T00:00:00Z");
    executor.run_for(2s);
    CHECK(owner_of(1) == "older");
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that has an owner keeps it") {
    put_secret(name_of(1));
    api.edit(kSecrets, "shop", name_of(1), [](json::object& secret) {
      secret["metadata"].as_object()["ownerReferences"] = json::array{json::object{
          {"apiVersion", "v1"}, {"kind", "Pod"}, {"name", "first"}, {"uid", "uid-first"}}};
    });
    put_pod(1, "second", "2023-01-01T00:00:00Z");
    start();
    executor.run_for(1h);
    CHECK(owner_of(1) == "first");
  }

  TEST_CASE_FIXTURE(Fixture, "a Secret that changed in between is given later") {
    start();
    executor.run_for(5s);
    bool conflict = true;
    api.set_fault([&](const std::string& call) {
      return conflict && call.rfind("patch", 0) == 0
                 ? Status(Error{ErrorCode::kConflict, "changed"})
                 : Status();
    });
    put_secret(name_of(1));
    put_pod(1, "web-0");
    executor.run_for(10s);
    CHECK(owner_of(1) == "none");
    conflict = false;
    executor.run_for(2min);
    CHECK(owner_of(1) == "web-0");
  }

  TEST_CASE_FIXTURE(Fixture,
                    "thousands of Secrets whose Pod never comes are deleted without pause") {
    for (int i = 0; i < 3000; ++i) put_secret(name_of(i));
    put(kPods, {{"metadata",
                 {{"name", "web-0"},
                  {"namespace", "shop"},
                  {"labels", {{"osm-proxy-uuid", uuid_of(7)}}}}}});
    clock.advance(1h);
    start();
    executor.run_for(1min);
    CHECK(metrics.value("osm_bootstrap_secrets_waiting") == 3000);
    CHECK(api.count(kSecrets) == 3000);
    executor.run_for(10s);
    CHECK(api.count(kSecrets) == 1);
    CHECK(owner_of(7) == "none");  // the store does not know its Pod, the API server does
    CHECK(log.lines_with("whose Pod never came").size() < 20);
  }

  TEST_CASE_FIXTURE(Fixture, "a server that refuses deletions is not asked without pause") {
    for (int i = 0; i < 600; ++i) put_secret(name_of(i));
    clock.advance(1h);
    std::size_t asked = 0;
    api.set_fault([&](const std::string& call) {
      if (call.rfind("delete", 0) != 0) return Status();
      ++asked;
      return Status(Error{ErrorCode::kPermissionDenied, "no"});
    });
    start();
    executor.run_for(150s);
    CHECK(asked > 0);
    CHECK(asked <= 1000);
  }

  TEST_CASE_FIXTURE(Fixture, "with a Role in each namespace, one without it delays no other") {
    put_namespace("shop", "osm");
    put_namespace("stray", "osm");
    put_namespace("elsewhere", "another");
    put_secret(name_of(1));
    put_pod(1, "web-0");
    start_by_namespace();
    executor.run_for(10s);
    CHECK(owner_of(1) == "web-0");
    REQUIRE(keeper->problems().size() == 1);
    const std::string problem = keeper->problems().front().text();
    CHECK(problem.find("namespaces/stray/secrets") != std::string::npos);
    CHECK(problem.find("kubectl create rolebinding osm-controller-secrets-osm -n stray "
                       "--clusterrole=osm-controller-secrets-osm "
                       "--serviceaccount=osm-system:osm-controller") != std::string::npos);
    allowed.insert("stray");
    executor.run_for(10s);
    CHECK(keeper->problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "Secrets of a namespace that joins the mesh are followed") {
    put_secret(name_of(1));
    put_pod(1, "web-0");
    start_by_namespace();
    executor.run_for(2min);
    CHECK(owner_of(1) == "none");
    CHECK(keeper->problems().empty());
    put_namespace("shop", "osm");
    executor.run_for(3s);
    CHECK(owner_of(1) == "web-0");
    CHECK(api.watchers() == 1);
    put_namespace("shop", "another");
    executor.run_for(3s);
    CHECK(api.watchers() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "injectors learn how many Secrets wait for their Pod") {
    CHECK_FALSE(read_waiting_secrets(*board));
    start();
    executor.run_for(5s);
    CHECK(read_waiting_secrets(*board) == inject::WaitingSecrets{});
    for (int i = 0; i < 34; ++i) put_secret(name_of(i));
    put_pod(1, "web-0");
    executor.run_for(3s);
    CHECK(read_waiting_secrets(*board) == inject::WaitingSecrets{30, {{"shop", 30}}});
    leads = false;
    executor.run_for(2min);
    CHECK_FALSE(read_waiting_secrets(*board));
  }
}
