// The store syncs all kinds, follows CRDs that come and go, and catches up.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_server.hpp"
#include "kubernetes/mesh_resources.hpp"
#include "kubernetes/source/stored_statuses.hpp"
#include "lib/run.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using kubernetes_test::WatchServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace k = kubernetes;
namespace json = boost::json;

class MemoryCluster final : public k::Cluster {
 public:
  explicit MemoryCluster(Executor& executor) : server_api(executor) {}
  std::string server() const override { return "https://cluster"; }
  k::Api& api() override { return server_api; }

  WatchServer server_api;
};

struct Fixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng{testing::seed()};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  MemoryCluster cluster{executor};
  WatchServer& server = cluster.server_api;
  std::vector<ObjectKey> told;
  std::unique_ptr<ObjectStore> store;
  Subscription subscription;

  void start(spec::Kinds kinds = spec::mesh_kinds(), bool workloads = true) {
    store = k::make_store({.cluster = cluster,
                           .runtime = {executor, executor, clock, rng, log, metrics},
                           .kinds = std::move(kinds),
                           .workloads = workloads});
    subscription = store->subscribe(
        [this](const auto& keys) { told.insert(told.end(), keys.begin(), keys.end()); });
    executor.run_until_idle();
  }
  // Catches up in another thread, while the executor runs in this one. `meanwhile` runs once, when
  // the server has been asked.
  bool catch_up(
      const ObjectKey& key, milliseconds timeout, std::function<void()> meanwhile = [] {}) {
    const auto gets = server.gets();
    auto caught_up = std::async(std::launch::async, [&] { return store->catch_up(key, timeout); });
    while (caught_up.wait_for(milliseconds(0)) != std::future_status::ready) {
      executor.run_until_idle();
      if (meanwhile && server.gets() > gets) std::exchange(meanwhile, nullptr)();
      std::this_thread::yield();
    }
    return caught_up.get();
  }
  std::vector<std::string> names(const GroupKind& kind) const {
    std::vector<std::string> out;
    for (const auto& object : store->list(kind))
      out.push_back(object->key.ns + '/' + object->key.name);
    return out;
  }
};

using Names = std::vector<std::string>;

TEST_SUITE("kubernetes::make_store") {
  TEST_CASE("is synced once every kind was listed, and holds what there is by kind and key") {
    Fixture f;
    f.server.put(k::kServices, "shop", "web");
    f.server.put(k::kServices, "books", "api");
    f.server.put(k::kPods, "shop", "web-1",
                 {{"metadata", {{"labels", {{"osm-proxy-uuid", "some-uuid"}}}}}});
    f.server.put(k::kPods, "shop", "without-a-proxy");
    f.server.set_list_fault(Error{ErrorCode::kUnavailable, "away"});
    f.start();
    CHECK_FALSE(f.store->has_synced());
    f.server.set_list_fault({});
    f.executor.run_for(seconds(3));
    CHECK(f.store->has_synced());
    CHECK(f.names(kinds::kService) == Names{"books/api", "shop/web"});
    CHECK(f.names(kinds::kPod) == Names{"shop/web-1"});
    CHECK(f.names(k::kSecrets.group_kind()).empty());
    REQUIRE(f.store->get({kinds::kService, "shop", "web"}) != nullptr);
    CHECK(f.store->get({kinds::kService, "shop", "web"})->source.path ==
          "https://cluster/api/v1/namespaces/shop/services/web");
    CHECK(f.store->get({kinds::kService, "shop", "other"}) == nullptr);
    CHECK(f.store->get({{"", "Nothing"}, "shop", "web"}) == nullptr);
    f.told.clear();
    f.server.put(k::kServices, "shop", "web2");
    f.executor.run_until_idle();
    CHECK(f.told == std::vector<ObjectKey>{{kinds::kService, "shop", "web2"}});
  }

  TEST_CASE("an embedder's kind is followed, by its own group") {
    Fixture f;
    spec::Kinds kinds = spec::mesh_kinds();
    kinds.push_back({.name = {"vendor.example", "TCPRoute"}, .version = "v1", .plural = "routes"});
    f.server.put(k::resource_of(kinds.back()), "shop", "theirs");
    f.server.put(k::kTcpRoutes, "shop", "ours");
    f.start(kinds);
    CHECK(f.names(kinds.back().name) == Names{"shop/theirs"});
    CHECK(f.names(kinds::kTcpRoute) == Names{"shop/ours"});
  }

  TEST_CASE("only the configured kinds are listed, waited for and reported") {
    Fixture f;
    f.server.put(k::kNamespaces, "", "shop",
                 {{"metadata", {{"labels", {{"openservicemesh.io/monitored-by", "osm"}}}}}});
    f.server.put(k::kServices, "shop", "web");
    f.server.put(k::kPods, "shop", "web-1");
    f.server.set_missing(k::kTrafficSplits, true);
    f.start(spec::mesh_kinds({kinds::kNamespace, kinds::kMeshConfig}), false);
    CHECK(f.server.lists() == 2);
    CHECK(f.server.watches() == 2);
    CHECK(f.store->has_synced());
    CHECK(f.names(kinds::kNamespace) == Names{"/shop"});
    CHECK(f.names(kinds::kService).empty());
    CHECK(f.store->get({kinds::kService, "shop", "web"}) == nullptr);
    CHECK(f.store->list_problems().empty());
    f.told.clear();
    f.server.put(k::kServices, "shop", "web2");
    f.server.put(k::kMeshConfigs, "osm-system", "osm-mesh-config");
    f.executor.run_until_idle();
    CHECK(f.told == std::vector<ObjectKey>{{kinds::kMeshConfig, "osm-system", "osm-mesh-config"}});
    // All of them unreadable: that is the server.
    f.server.set_watch_fault(Error{ErrorCode::kUnavailable, "refused"});
    f.server.end_watches(Error{ErrorCode::kUnavailable, "reset"});
    f.executor.run_for(seconds(10));
    REQUIRE(f.store->list_problems().size() == 1);
    CHECK(f.store->list_problems().front().path == "https://cluster");
  }

  TEST_CASE("a kind whose CRD is missing is empty, reported, and found when it is installed") {
    Fixture f;
    f.server.set_missing(k::kTrafficSplits, true);
    f.start();
    CHECK(f.store->has_synced());
    auto problems = f.store->list_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().text() ==
          "https://cluster/apis/split.smi-spec.io/v1alpha2/trafficsplits: the API server does not "
          "have this resource, so there is none in the mesh; install the CustomResourceDefinition "
          "trafficsplits.split.smi-spec.io with version v1alpha2 [not-found]");
    f.server.set_missing(k::kTrafficSplits, false);
    f.server.put(k::kTrafficSplits, "shop", "canary");
    f.executor.run_for(seconds(2));
    CHECK(f.names(kinds::kTrafficSplit) == Names{"shop/canary"});
    CHECK(f.store->list_problems().empty());
  }

  TEST_CASE("a server that is away is one problem, not one for each kind") {
    Fixture f;
    f.server.put(k::kServices, "shop", "web");
    f.start();
    const Error away{ErrorCode::kUnavailable, "connection refused"};
    f.server.set_watch_fault(away);
    f.server.set_list_fault(away);
    f.server.end_watches(away);
    f.executor.run_for(seconds(20));
    const auto problems = f.store->list_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().code == ErrorCode::kUnreadableSource);
    CHECK(problems.front().path == "https://cluster");
    CHECK(f.names(kinds::kService) == Names{"shop/web"});
    CHECK(f.store->has_synced());
    f.server.set_watch_fault({});
    f.server.set_list_fault({});
    f.executor.run_for(seconds(31));
    CHECK(f.store->list_problems().empty());
  }

  TEST_CASE("catching up waits until the watch has told of the object, after its subscribers") {
    Fixture f;
    f.server.put(k::kServices, "shop", "old");
    f.start();
    f.told.clear();
    const auto lists = f.server.lists();
    f.server.deafen();
    f.server.put(k::kServices, "shop", "web");
    f.server.remove(k::kServices, "shop", "old");
    for (const char* name : {"web", "old"}) {
      CAPTURE(name);
      CHECK_FALSE(f.catch_up({kinds::kService, "shop", name}, milliseconds(20)));
    }
    CHECK(f.names(kinds::kService) == Names{"shop/old"});
    const auto caught_up =
        f.catch_up({kinds::kService, "shop", "web"}, seconds(100), [&] { f.server.undeafen(); });
    CHECK(caught_up);
    // Subscribers heard of it before. What came after it may still be on its way.
    CHECK(std::ranges::count(f.told, ObjectKey{kinds::kService, "shop", "web"}) == 1);
    f.executor.run_until_idle();
    CHECK(f.names(kinds::kService) == Names{"shop/web"});
    CHECK(f.catch_up({kinds::kService, "shop", "old"}, seconds(100)));
    CHECK(f.server.lists() == lists);
    CHECK(f.server.gets() == 4);
  }

  TEST_CASE("a version from before a restore proves nothing until the watch tells of something") {
    Fixture f;
    for (const char* name : {"a", "b", "c"}) f.server.put(k::kServices, "shop", name);
    f.start();
    f.server.bookmark();
    f.executor.run_until_idle();
    const Error away{ErrorCode::kUnavailable, "connection refused"};
    f.server.set_watch_fault(away);
    f.server.set_list_fault(away);
    f.server.restore(1);
    f.executor.run_for(seconds(2));
    // Written after the restore, with a lower version than the last one that was read.
    f.server.put(k::kServices, "shop", "new");
    CHECK_FALSE(f.catch_up({kinds::kService, "shop", "new"}, milliseconds(50)));
    CHECK(f.names(kinds::kService) == Names{"shop/a", "shop/b", "shop/c"});
    f.server.set_watch_fault({});
    f.server.set_list_fault({});
    f.executor.run_for(seconds(31));
    CHECK(f.catch_up({kinds::kService, "shop", "new"}, seconds(100)));
    CHECK(f.names(kinds::kService) == Names{"shop/a", "shop/b", "shop/c", "shop/new"});
  }

  TEST_CASE("catching up with an object that did not change since it was read waits for nothing") {
    Fixture f;
    f.server.put(k::kServices, "shop", "web");
    f.server.put(k::kServices, "shop", "later");
    f.start();
    const auto lists = f.server.lists();
    f.server.deafen();
    // Nor with what is not there, is not selected, or can never be read.
    f.server.put(k::kNamespaces, "", "elsewhere");
    for (const ObjectKey& key :
         {ObjectKey{kinds::kService, "shop", "web"}, ObjectKey{kinds::kService, "shop", "none"},
          ObjectKey{kinds::kNamespace, "", "elsewhere"}, ObjectKey{{"", "Nothing"}, "shop", "web"},
          ObjectKey{kinds::kMeshConfig, "shop", "osm-mesh-config"},
          ObjectKey{kinds::kService, "shop", "web?watch=1"},
          ObjectKey{kinds::kService, "", "web"}}) {
      CAPTURE(key.str());
      CHECK(f.catch_up(key, seconds(100)));
    }
    CHECK(f.server.gets() == 3);
    // The mesh's own kinds are in one namespace, which need not be named.
    CHECK(f.catch_up({kinds::kMeshConfig, "", "osm-mesh-config"}, seconds(100)));
    CHECK(f.server.gets() == 4);
    CHECK(f.server.lists() == lists);
  }

  TEST_CASE("an object that changed again since it was asked for is caught up with") {
    Fixture f;
    f.server.put(k::kServices, "shop", "web");
    f.start();
    f.server.deafen();
    f.server.put(k::kServices, "shop", "web", {{"spec", {{"type", "ClusterIP"}}}});
    CHECK(f.catch_up({kinds::kService, "shop", "web"}, seconds(100), [&] {
      f.server.put(k::kServices, "shop", "web", {{"spec", {{"type", "NodePort"}}}});
      f.server.undeafen();
    }));
    CHECK(json::serialize(*f.store->get({kinds::kService, "shop", "web"})->document)
              .find("NodePort") != std::string::npos);
  }

  TEST_CASE("an object that is deleted since it was asked for is caught up with") {
    Fixture f;
    f.server.put(k::kServices, "shop", "web");
    f.start();
    f.server.deafen();
    f.server.put(k::kServices, "shop", "web", {{"spec", {{"type", "ClusterIP"}}}});
    CHECK(f.catch_up({kinds::kService, "shop", "web"}, seconds(100), [&] {
      f.server.remove(k::kServices, "shop", "web");
      f.server.undeafen();
    }));
    CHECK(f.names(kinds::kService).empty());
  }

  TEST_CASE("catch_up() that is impossible fails at once or at the timeout") {
    Fixture f;
    f.start();
    f.server.set_get_fault(Error{ErrorCode::kUnavailable, "away"});
    CHECK_FALSE(f.catch_up({kinds::kService, "shop", "web"}, seconds(100)));
    f.server.set_get_fault({});
    f.server.deafen();
    f.server.put(k::kServices, "shop", "web");
    CHECK_FALSE(f.catch_up({kinds::kService, "shop", "web"}, milliseconds(1)));
  }

  TEST_CASE("a status is kept beside its object, and its changes are told apart") {
    Fixture f;
    const auto policy = [](const char* status, const char* spec) {
      return json::object{{"spec", {{"value", spec}}}, {"status", {{"value", status}}}};
    };
    const ObjectKey key{kinds::kTrafficTarget, "shop", "web"};
    f.server.put(k::kTrafficTargets, "shop", "web", policy("first", "a"));
    f.start();
    auto& statuses = dynamic_cast<k::StoredStatuses&>(*f.store);
    std::vector<ObjectKey> restated;
    const Subscription subscription = statuses.subscribe_statuses(
        [&](const auto& keys) { restated.insert(restated.end(), keys.begin(), keys.end()); });
    const auto take = [](std::vector<ObjectKey>& keys) { return std::exchange(keys, {}).size(); };
    CHECK(statuses.status_of(key).status->at("value") == "first");
    CHECK(statuses.status_of({kinds::kTrafficTarget, "shop", "other"}).version.empty());
    take(f.told);

    f.server.put(k::kTrafficTargets, "shop", "web", policy("second", "a"));
    f.executor.run_until_idle();
    CHECK(take(f.told) == 0);
    CHECK(take(restated) == 1);
    CHECK(statuses.status_of(key).status->at("value") == "second");
    CHECK(statuses.status_of(key).version == f.server.version());
    CHECK(f.store->get(key)->document->as_object().if_contains("status") == nullptr);

    f.server.put(k::kTrafficTargets, "shop", "web", policy("second", "b"));
    f.executor.run_until_idle();
    CHECK(take(f.told) == 1);
    CHECK(take(restated) == 0);

    // A list tells of what no watch has.
    f.server.deafen();
    f.server.put(k::kTrafficTargets, "shop", "web", {{"spec", {{"value", "b"}}}});
    f.server.end_watches(Error{ErrorCode::kGone, "too old"});
    f.executor.run_for(seconds(10));
    CHECK(take(f.told) == 0);
    CHECK(take(restated) == 1);
    CHECK(statuses.status_of(key).status == nullptr);
  }

  TEST_CASE("can be destroyed at any moment of its life") {
    auto random = osm::testing::seeded();
    for (int round = 0; round < testing::steps(200, 4'000); ++round) {
      Fixture f;
      f.server.page_size = 1;
      for (const char* name : {"a", "b", "c"}) f.server.put(k::kServices, "shop", name);
      if (random() % 2 == 0) f.server.set_missing(k::kEndpointSlices, true);
      f.start();
      f.server.end_watches();
      f.server.put(k::kServices, "shop", "d");
      for (auto steps = random() % 60; steps > 0; --steps) f.executor.run_one();
      f.subscription.reset();
      f.store.reset();
      f.told.clear();
      f.executor.run_for(std::chrono::minutes(5));
      CHECK(f.told.empty());
      CHECK(f.server.watches() == 0);
    }
  }
}

}  // namespace
