// A change touches only the services, identities and proxies that it concerns.
#include "catalog/mesh_builder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <random>

#include "index_checks.hpp"
#include "lib/run.hpp"
#include "mesh_values.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/service_provider.hpp"
#include "random_policies.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace osm::testing;
using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;

namespace {

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Two providers, a specification, and a builder that hears of every change.
struct Mesh {
  MemoryMeshSpec spec;
  MemoryEndpointsProvider vm{"vm"};
  MemoryEndpointsProvider cloud{"cloud"};
  MeshBuilder builder = fresh_builder();
  std::vector<Subscription> subscriptions;

  Mesh() {
    for (MemoryEndpointsProvider* provider : {&vm, &cloud}) {
      subscriptions.push_back(
          provider->subscribe([this](const auto& names) { builder.endpoints_changed(names); }));
      subscriptions.push_back(provider->subscribe_workloads(
          [this](const auto& names) { builder.workloads_changed(names); }));
    }
  }
  MeshBuilder fresh_builder() {
    return MeshBuilder(spec, {{&vm}, {&cloud, false}}, {&vm, &cloud}, TrustDomain("cluster.local"));
  }
};

// A shop whose buyer may buy, and whose thief may not.
struct Shop : Mesh {
  Shop() {
    spec.put_namespace(kNs);
    spec.put_service_account(account("buyer"));
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("stock", "10.1.0.2"));
    spec.put(routes("web", {"buy"}));
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    spec.put(target("store", "stock", {"store"}, {http_rule("web", {"buy"})}));
    vm.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store")});
    vm.set_endpoints(service_name("stock"), {served_at("10.0.0.2", "stock")});
    vm.put_workload(workload("store", "u1", "store", "10.0.0.1", {"store"}));
    last = builder.build();
    REQUIRE(last);
  }
  // The next generation after `change`, which must differ.
  const model::MeshSnapshot& after(const std::function<void()>& change) {
    change();
    last = builder.build();
    REQUIRE(last);
    return *last;
  }
  SnapshotPtr last;
};

void check_same_content(const model::MeshSnapshot& a, const model::MeshSnapshot& b) {
  CHECK(a.config == b.config);
  CHECK(a.hash == b.hash);
  check_same_table(a.services, b.services);
  check_same_table(a.endpoints, b.endpoints);
  check_same_table(a.policies, b.policies);
  check_same_table(a.workloads, b.workloads);
  check_same_table(a.targets, b.targets);
  check_same_table(a.clients, b.clients);
  check_same_table(a.telemetries, b.telemetries);
  CHECK(*a.permissive_upstreams == *b.permissive_upstreams);
  CHECK(*a.problems == *b.problems);
  CHECK(*a.denied == *b.denied);
}

// Adds the keys that differ. The others keep their pointers.
template <class V, class Keys>
void add_differing(const Table<V>& before, const Table<V>& after, Keys& differing) {
  for (const auto& entry : before) {
    const auto now = after.find(entry->key());
    if (now == entry) continue;
    differing.insert(entry->key());
    if (now) CHECK_FALSE(*now == *entry);
  }
  for (const auto& entry : after)
    if (!before.find(entry->key())) differing.insert(entry->key());
}

template <class V, class Keys>
void check_told(const Table<V>& before, const Table<V>& after, const Keys& told) {
  Keys differing;
  add_differing(before, after, differing);
  CHECK(told == differing);
}

void check_changes(const model::MeshSnapshot& before, const model::MeshSnapshot& after) {
  CHECK(after.generation == before.generation + 1);
  check_told(before.services, after.services, after.changes.services);
  check_told(before.endpoints, after.endpoints, after.changes.endpoints);
  std::set<ServiceIdentity> identities;
  add_differing(before.policies, after.policies, identities);
  add_differing(before.clients, after.clients, identities);
  CHECK(after.changes.identities == identities);
  check_told(before.telemetries, after.telemetries, after.changes.telemetries);
  check_told(before.workloads, after.workloads, after.changes.workloads);
  MeshConfig shapes_no_proxy = before.config;
  shapes_no_proxy.log_level = after.config.log_level;
  const auto denied = [](const model::MeshSnapshot& mesh) {
    std::set<ServiceIdentity> out;
    for (const auto& [account, denial] : mesh.denied->accounts) out.insert(account);
    return out;
  };
  const bool other_denials = after.config.proxy.permissive && denied(before) != denied(after);
  CHECK(after.changes.everything == (other_denials || !(shapes_no_proxy == after.config)));
}

// One random change to a small mesh whose parts collide often.
class RandomChanges {
 public:
  RandomChanges(Mesh& mesh, std::uint64_t seed) : mesh_(mesh), random_(seed) {}

  void apply() {
    switch (pick(14)) {
      case 12: {
        const GroupKind& kind = osm::testing::kRandomPolicies[pick(5)];
        if (pick(3) == 0) return mesh_.spec.remove({kind, kNs, name("p")});
        return mesh_.spec.put(osm::testing::random_policy(
            kind, kNs, name("p"), [this](int below) { return pick(below); },
            [this] { return name("a"); }, [this] { return name("s"); }));
      }
      case 0:
        return mesh_.spec.put(any_service());
      case 1:
        return mesh_.spec.remove({kinds::kService, kNs, name("s")});
      case 2:
        return provider().set_endpoints(service_name(name("s")), any_endpoints());
      case 3:
        return provider().remove_endpoints(service_name(name("s")));
      case 4:
        return mesh_.spec.put(target(name("t"), name("a"), {name("a"), name("a")}, any_rules()));
      case 5:
        return mesh_.spec.remove({kinds::kTrafficTarget, kNs, name("t")});
      case 6:
        return mesh_.spec.put(
            split(name("x"), name("s"), {{name("s"), pick(2)}, {name("s"), pick(2)}}));
      case 7:
        return mesh_.spec.remove(
            {pick(2) ? kinds::kTrafficSplit : kinds::kTcpRoute, kNs, name("x")});
      case 8:
        return mesh_.spec.put(routes(name("r"), pick(2) ? std::vector<std::string>{"m1", "m2"}
                                                        : std::vector<std::string>{"m1"}));
      case 9:
        return mesh_.spec.put(
            smi::TcpRoute{.name = {kNs, name("x")},
                          .ports = pick(2) ? std::vector<Port>{port(3306)} : std::vector<Port>{}});
      case 10:
        return provider().put_workload(
            workload(name("w"), name("u"), name("a"), address(), {name("s"), name("s")}));
      default:
        return rare();
    }
  }

 private:
  void rare() {
    MeshConfig config = mesh_.spec.get_mesh_config();
    switch (pick(9)) {
      case 0:
        config.proxy.permissive = !config.proxy.permissive;
        if (pick(2)) config.log_level = pick(2) ? LogLevel::kInfo : LogLevel::kError;
        return mesh_.spec.set_mesh_config(config);
      case 1:
        config.proxy.egress = !config.proxy.egress;
        if (pick(2))
          config.proxy.tls.maximum = config.proxy.egress ? TlsVersion::kAuto : TlsVersion::kTls13;
        if (pick(2)) config.proxy.tracing.enabled = !config.proxy.tracing.enabled;
        if (pick(2)) config.proxy.external_authorization.enabled = pick(2);
        if (pick(2)) config.proxy.active_health_checks = pick(2);
        if (pick(2)) config.proxy.request_metrics = pick(2);
        if (pick(2)) config.proxy.retries = pick(2);
        return mesh_.spec.set_mesh_config(config);
      case 2:
        return mesh_.spec.put_namespace("other");
      case 3:
        return mesh_.spec.remove({kinds::kNamespace, "", "other"});
      case 4:
        return mesh_.cloud.set_synced(true);
      case 5:
        return mesh_.cloud.set_healthy(pick(2) == 0);
      case 7: {
        ServiceProvider order{.service = {kNs, name("s")}, .providers = {}};
        order.providers.push_back({pick(2) ? "vm" : "cloud", std::nullopt});
        if (pick(2)) order.providers.back().weight = pick(3);
        order.excludes_others = pick(3) == 0;
        const ObjectKey key{kinds::kServiceProvider, kNs, name("o")};
        return pick(3) ? mesh_.spec.put(Policy(key, std::move(order))) : mesh_.spec.remove(key);
      }
      case 6: {
        Denylist list;
        if (pick(2)) list.accounts.push_back(identity(name("a")));
        if (pick(2)) list.proxies.emplace_back(name("u"));
        return mesh_.spec.put(Policy({kinds::kDenylist, "osm-system", name("d")}, std::move(list)));
      }
      default:
        return provider().remove_workload({kNs, name("w")});
    }
  }

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::string name(const std::string& prefix) { return prefix + std::to_string(pick(4)); }
  std::string address() { return "10.0.0." + std::to_string(1 + pick(4)); }
  MemoryEndpointsProvider& provider() { return pick(3) ? mesh_.vm : mesh_.cloud; }

  Service any_service() {
    std::vector<ServicePort> ports{service_port("a", 80, 8080)};
    if (pick(2)) ports.push_back(named_port("b", 81, "web"));
    if (pick(3) == 0)
      ports.push_back(service_port("c", 82, 8080, pick(2) ? Protocol::kTcp : Protocol::kGrpc));
    Service out = service(name("s"), pick(3) ? "10.1.0." + std::to_string(pick(5)) : "", ports);
    if (pick(3)) out.selector = {{"app", "x"}};
    return out;
  }
  std::vector<Endpoint> any_endpoints() {
    std::vector<Endpoint> out;
    for (int left = pick(4); left > 0; --left) {
      out.push_back(
          served_at(address(), name("a"), 8080 + pick(2), pick(2) ? "a" : "b", pick(4) != 0));
      if (pick(5) == 0) out.back().identity.ns = "other";
    }
    return out;
  }
  std::vector<smi::TrafficTargetRule> any_rules() {
    std::vector<smi::TrafficTargetRule> out;
    if (pick(4)) out.push_back(http_rule(name("r"), {"m1", "m2"}));
    if (pick(3) == 0) out.push_back(tcp_rule(name("x")));
    return out;
  }

  Mesh& mesh_;
  std::mt19937_64 random_;
};

}  // namespace

TEST_SUITE("catalog::MeshBuilder") {
  TEST_CASE("nothing is built before all required inputs have synced; missing ones are named") {
    Mesh mesh;
    mesh.spec.set_synced(false);
    mesh.vm.set_synced(false);
    mesh.cloud.set_synced(false);
    MeshBuilder builder = mesh.fresh_builder();
    CHECK(builder.waiting_for() ==
          std::vector<std::string>{"mesh specification", "endpoints provider vm"});
    CHECK(builder.build() == nullptr);
    mesh.spec.set_synced(true);
    CHECK(builder.build() == nullptr);
    mesh.vm.set_synced(true);
    const auto first = builder.build();
    REQUIRE(first);
    CHECK(first->changes.everything);
    CHECK(first->generation == 1);
    CHECK(first->problems->size() == 1);  // the optional provider's endpoints are left out
  }

  TEST_CASE("after any history the content equals a fresh build and changes are exact") {
    const std::uint64_t first_seed = osm::testing::seed();
    const std::uint64_t end = first_seed + static_cast<unsigned>(osm::testing::steps(30, 600));
    for (std::uint64_t seed = first_seed; seed != end; ++seed) {
      CAPTURE(seed);
      Mesh mesh;
      mesh.spec.put_namespace(kNs);
      mesh.cloud.set_synced(false);
      RandomChanges changes(mesh, seed);
      SnapshotPtr last = mesh.builder.build();
      REQUIRE(last);
      IndexChecks index;
      for (int step = 0; step < 60; ++step) {
        CAPTURE(step);
        for (std::uint64_t burst = 1 + (seed + static_cast<std::uint64_t>(step)) % 3; burst > 0;
             --burst)
          changes.apply();
        if (const auto next = mesh.builder.build()) {
          check_changes(*last, *next);
          last = next;
        }
        MeshBuilder other = mesh.fresh_builder();
        const SnapshotPtr fresh = other.build();
        check_same_content(*last, *fresh);
        index.check(mesh.builder.content(), *fresh);
        check_origins(mesh.builder.content());
        CHECK(mesh.builder.build() == nullptr);  // nothing happened
      }
    }
  }

  TEST_CASE("a change of endpoints touches the endpoints of that service alone") {
    Shop shop;
    const SnapshotPtr before = shop.last;
    const auto& after = shop.after([&] {
      shop.vm.set_endpoints(service_name("store"),
                            {served_at("10.0.0.1", "store"), served_at("10.0.0.9", "store")});
    });
    CHECK(after.changes.endpoints == std::set{service_name("store")});
    CHECK(after.changes.services.empty());
    CHECK(after.changes.identities.empty());
    CHECK(after.services.find(service_name("store")) ==
          before->services.find(service_name("store")));
  }

  TEST_CASE("a Service that is deleted goes with its endpoints") {
    Shop shop;
    const ObjectKey store{kinds::kService, kNs, "store"};
    const auto& after = shop.after([&] {
      shop.spec.remove(store);
      shop.vm.remove_endpoints(service_name("store"));
      SUBCASE("by name") {}
      SUBCASE("when all are read again") { shop.builder.all_endpoints_changed(); }
    });
    CHECK(after.services.find(service_name("store")) == nullptr);
    CHECK(after.endpoints.find(service_name("store")) == nullptr);
    CHECK(after.changes.objects == std::set{store});
    CHECK(shop.builder.build() == nullptr);
  }

  TEST_CASE("endpoints are those of the Service beside them, whichever event comes first") {
    Shop shop;
    shop.subscriptions.erase(shop.subscriptions.begin());
    const auto& after = shop.after([&] {
      shop.spec.put(service("store", "10.1.0.1", {service_port("new", 80, 9090)}));
      shop.vm.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store", 9090, "new")});
    });
    REQUIRE(after.services.find(service_name("store"))->ports.size() == 1);
    CHECK(after.services.find(service_name("store"))->ports.front().target_port == port(9090));
  }

  TEST_CASE("a new account behind a service reaches its entry and the clients that see it") {
    Shop shop;
    const auto& after = shop.after([&] {
      shop.vm.set_endpoints(service_name("store"),
                            {served_at("10.0.0.1", "store"), served_at("10.0.0.9", "annex")});
    });
    CHECK(after.changes.services == std::set{service_name("store")});
    CHECK(after.changes.identities == std::set{identity("buyer")});
    CHECK_FALSE(after.upstreams_of(identity("buyer"))->front().every_identity);
  }

  TEST_CASE("a new TrafficTarget touches the accounts it names and nothing else") {
    Shop shop;
    const auto& after = shop.after(
        [&] { shop.spec.put(target("thief", "store", {"thief"}, {http_rule("web", {"buy"})})); });
    CHECK(after.changes.identities == std::set{identity("store"), identity("thief")});
    CHECK(after.changes.services.empty());
    CHECK(after.changes.endpoints.empty());
    CHECK_FALSE(after.changes.everything);
  }

  TEST_CASE("a removed TrafficTarget takes its accounts' rights with it") {
    Shop shop;
    const auto& after = shop.after([&] {
      shop.spec.remove({kinds::kTrafficTarget, kNs, "buyer"});
    });
    CHECK(after.changes.identities == std::set{identity("buyer"), identity("store")});
    CHECK(after.policies.find(identity("buyer")) == nullptr);
    CHECK(after.upstreams_of(identity("buyer"))->empty());
    CHECK(after.policies.find(identity("store"))->inbound.empty());
  }

  TEST_CASE("new routes of a group leave the upstreams of its clients as they were") {
    Shop shop;
    const auto upstreams = shop.last->upstreams_of(identity("store"));
    const auto& after = shop.after([&] {
      smi::HttpRouteGroup group = routes("web", {"buy"});
      group.matches[0].methods = {"GET", "POST"};
      shop.spec.put(group);
    });
    CHECK(after.changes.identities == std::set{identity("stock"), identity("store")});
    CHECK(after.upstreams_of(identity("store")) == upstreams);
  }

  TEST_CASE("a generation names the objects that were written, those without effect too") {
    Shop shop;
    CHECK(shop.last->changes.objects == std::set<ObjectKey>{{kinds::kNamespace, "", kNs},
                                                            {kinds::kService, kNs, "store"},
                                                            {kinds::kService, kNs, "stock"},
                                                            {kinds::kHttpRouteGroup, kNs, "web"},
                                                            {kinds::kTrafficTarget, kNs, "buyer"},
                                                            {kinds::kTrafficTarget, kNs, "store"},
                                                            {model::kWorkloadKind, kNs, "store"}});
    const auto& after = shop.after([&] {
      shop.spec.put(routes("unused", {"buy"}));
      shop.spec.remove({kinds::kTrafficTarget, kNs, "buyer"});
      shop.vm.put_workload(workload("store", "u1", "store", "10.0.0.3", {"store"}));
    });
    CHECK(after.changes.objects == std::set<ObjectKey>{{kinds::kHttpRouteGroup, kNs, "unused"},
                                                       {kinds::kTrafficTarget, kNs, "buyer"},
                                                       {model::kWorkloadKind, kNs, "store"}});
    MeshConfig config;
    config.proxy.permissive = true;
    CHECK(shop.after([&] { shop.spec.set_mesh_config(config); }).changes.objects.size() == 1);
    shop.spec.put(routes("unused", {"sell"}));
    CHECK(shop.builder.build() == nullptr);
  }

  TEST_CASE("a change of mode concerns everything, and back again") {
    Shop shop;
    MeshConfig config;
    config.proxy.permissive = true;
    const auto& permissive = shop.after([&] { shop.spec.set_mesh_config(config); });
    CHECK(permissive.changes.everything);
    CHECK(permissive.policies.empty());
    CHECK(permissive.upstreams_of(identity("thief"))->size() == 2);
    const auto& smi = shop.after([&] { shop.spec.set_mesh_config({}); });
    CHECK(smi.changes.everything);
    CHECK(smi.upstreams_of(identity("thief"))->empty());
    CHECK(smi.upstreams_of(identity("buyer"))->size() == 1);
  }

  TEST_CASE("conflicting protocols on a workload's port are one problem, however many workloads") {
    Shop shop;
    const auto& after = shop.after([&] {
      shop.spec.put(service("raw", "10.1.0.9", {service_port("raw", 99, 8080, Protocol::kTcp)}));
      shop.vm.put_workload(workload("w1", "u8", "store", "10.0.0.8", {"raw", "store"}));
      shop.vm.put_workload(workload("w2", "u9", "store", "10.0.0.9", {"raw", "store"}));
    });
    REQUIRE(after.problems->size() == 1);
    const Problem& problem = after.problems->front();
    CHECK(problem.code == ErrorCode::kConflictingProtocol);
    CHECK(problem.object == ObjectKey{kinds::kService, kNs, "raw"});
    for (const char* part : {"shop/w1", "8080", "tcp", "http", "shop/store"})
      CHECK(problem.cause.find(part) != std::string::npos);
  }

  TEST_CASE("a service that is scaled to zero and back stays with its clients") {
    Shop shop;
    Service store = service("store", "10.1.0.1");
    store.selector = {{"app", "store"}};
    shop.spec.put(store);
    const auto upstreams = shop.last->upstreams_of(identity("buyer"));
    const auto& zero = shop.after([&] { shop.vm.set_endpoints(service_name("store"), {}); });
    // The store may call another account of the namespace, so it sees the idle service for a while.
    CHECK(zero.changes.identities == std::set{identity("store")});
    CHECK(zero.upstreams_of(identity("buyer")) == upstreams);
    CHECK(zero.services.find(service_name("store"))->idle);
    CHECK(shop.fresh_builder().build()->hash == zero.hash);  // as after a restart
    const auto& back = shop.after(
        [&] { shop.vm.set_endpoints(service_name("store"), {served_at("10.0.0.7", "store")}); });
    CHECK(back.changes.identities == std::set{identity("store")});
    CHECK(back.upstreams_of(identity("buyer")) == upstreams);
  }

  TEST_CASE("the first build of many idle services takes time in proportion to their number") {
    const auto cpu_of_build = [](int count) {
      osm::testing::MemoryMeshSpec spec;
      osm::testing::MemoryEndpointsProvider vm{"vm"};
      spec.put_namespace(kNs);
      spec.put(smi::TcpRoute{.name = {kNs, "any"}, .ports = {}});
      for (int i = 0; i < count; ++i) {
        const std::string name = "s" + std::to_string(i);
        Service idle =
            service(name, "10.1." + std::to_string(i / 250) + '.' + std::to_string(i % 250));
        spec.put(idle);
        vm.set_endpoints(idle.name, {});
        spec.put(target(name, name, {"client"}, {tcp_rule("any")}));
      }
      MeshBuilder builder(spec, {{&vm}}, {&vm}, TrustDomain("cluster.local"));
      const double before = thread_cpu_seconds();
      const auto built = builder.build();
      const double used = thread_cpu_seconds() - before;
      REQUIRE(built->services.find(service_name("s0"))->idle);
      CHECK(built->upstreams_of(identity("client"))->size() == static_cast<std::size_t>(count));
      return used;
    };
    // Eight times as many: 64 times the time if each idle Service visited each target.
    const double few = std::min(cpu_of_build(250), cpu_of_build(250));
    const double many = cpu_of_build(2000);
    CHECK_MESSAGE(many < 24 * few, "250: " << few << " s, 2000: " << many << " s");
  }

  TEST_CASE("a service of denied accounts alone is idle: egress must not carry its requests") {
    Shop shop;
    Service store = service("store", "10.1.0.1");
    store.selector = {{"app", "store"}};
    shop.spec.put(store);
    Denylist list;
    list.accounts.push_back(identity("store"));
    const auto& denied = shop.after([&] {
      shop.spec.put(Policy({kinds::kDenylist, "osm-system", "d"}, std::move(list)));
    });
    CHECK(denied.services.find(service_name("store"))->idle);
    CHECK(denied.upstreams_of(identity("buyer"))->size() == 1);
    CHECK(denied.endpoints.find(service_name("store"))->endpoints.empty());
  }

  TEST_CASE("a ServiceProvider orders its Service's endpoints, and says what it cannot do") {
    Shop shop;
    const ObjectKey key{kinds::kServiceProvider, kNs, "order"};
    const auto put = [&](std::string name, const char* service, const char* provider) {
      shop.spec.put(Policy({kinds::kServiceProvider, kNs, std::move(name)},
                           ServiceProvider{.service = service_name(service),
                                           .providers = {{provider, 5}},
                                           .excludes_others = true}));
    };
    const auto& weighted = shop.after([&] { put("order", "store", "vm"); });
    CHECK(weighted.changes.endpoints == std::set{service_name("store")});
    CHECK(weighted.endpoints.find(service_name("store"))->endpoints.front().weight == 5u);
    CHECK(weighted.problems->empty());
    CHECK(shop.fresh_builder().build()->hash == weighted.hash);

    const auto& unknown = shop.after([&] { put("order", "store", "consul"); });
    CHECK(unknown.endpoints.find(service_name("store")) == nullptr);
    REQUIRE(unknown.problems->size() == 1);
    CHECK(unknown.problems->front().object == key);
    CHECK(unknown.problems->front().field == "spec.providers[0].name");
    CHECK(unknown.problems->front().cause ==
          "this controller has no endpoints provider consul; it has vm, cloud");

    const auto& both = shop.after([&] {
      put("order", "store", "vm");
      put("second", "store", "vm");
      put("third", "gone", "vm");
    });
    REQUIRE(both.problems->size() == 2);
    CHECK(both.problems->at(0).code == ErrorCode::kDuplicateObject);
    CHECK(both.problems->at(1).code == ErrorCode::kDanglingReference);
    CHECK(shop.after([&] { shop.spec.put(service("gone", "10.1.0.9")); }).problems->size() == 1);
    CHECK(shop.after([&] {
                shop.spec.remove({kinds::kServiceProvider, kNs, "second"});
              })
              .problems->empty());
  }

  TEST_CASE("an apex without workloads is reported, unless the mesh is permissive") {
    Shop shop;
    const auto& smi = shop.after([&] {
      shop.spec.put(service("apex", "10.1.0.9"));
      shop.spec.put(split("canary", "apex", {{"store", 1}}));
    });
    CHECK(smi.upstreams_of(identity("buyer"))->size() == 1);
    REQUIRE(smi.problems->size() == 1);
    const Problem& problem = smi.problems->front();
    CHECK(problem.object == ObjectKey{kinds::kTrafficSplit, kNs, "canary"});
    CHECK(problem.field == "spec.service");
    CHECK(problem.cause.find("Service shop/apex") != std::string::npos);
    CHECK(problem.cause.find("selector") != std::string::npos);
    MeshConfig config;
    config.proxy.permissive = true;
    CHECK(shop.after([&] { shop.spec.set_mesh_config(config); }).problems->empty());
    shop.after([&] { shop.spec.set_mesh_config({}); });
    const auto& served = shop.after(
        [&] { shop.vm.set_endpoints(service_name("apex"), {served_at("10.0.0.1", "store")}); });
    CHECK(served.problems->empty());
    CHECK(served.upstreams_of(identity("buyer"))->size() == 2);
  }

  TEST_CASE("TCP ports of a headless apex are reported: no weight has an effect on them") {
    Shop shop;
    const auto& after = shop.after([&] {
      shop.spec.put(service("store", "", {service_port("tcp", 80, 8080, Protocol::kTcp)}));
      shop.spec.put(split("canary", "store", {{"store", 1}}));
    });
    REQUIRE(after.problems->size() == 1);
    CHECK(after.problems->front().code == ErrorCode::kUnusedField);
    CHECK(after.problems->front().cause.find("headless") != std::string::npos);
  }

  TEST_CASE("a proxy UUID that two workloads of one provider claim belongs to neither") {
    Shop shop;
    const auto& after =
        shop.after([&] { shop.vm.put_workload(workload("impostor", "u1", "admin", "10.0.0.66")); });
    CHECK(after.workloads.empty());
    REQUIRE(after.problems->size() == 1);
    CHECK(after.problems->front().cause.find("machine shop/impostor, machine shop/store; none") !=
          std::string::npos);
  }

  TEST_CASE("no provider takes a workload away from one before it") {
    Shop shop;
    const auto& after = shop.after(
        [&] { shop.cloud.put_workload(workload("impostor", "u1", "admin", "10.0.0.66")); });
    REQUIRE(after.workloads.size() == 1);
    CHECK((*after.workloads.begin())->workload.name.name == "store");
    REQUIRE(after.problems->size() == 1);
    CHECK(after.problems->front().cause.find("only machine shop/store is served") !=
          std::string::npos);
  }

  TEST_CASE(
      "a proxy UUID that a machine and a pod claim belongs to both, and two pods to neither") {
    Shop shop;
    Workload pod = workload("impostor", "u1", "admin", "10.0.0.66");
    pod.kind = WorkloadKind::kPod;
    const auto& both = shop.after([&] { shop.cloud.put_workload(pod); });
    CHECK(both.workloads.find({kNs, ProxyId("u1")})->workload.name.name == "store");
    CHECK(both.workloads.find({kNs, ProxyId("u1"), WorkloadKind::kPod}));
    REQUIRE(both.problems->size() == 1);
    CHECK(both.problems->front().cause.find("Pod shop/impostor, machine shop/store") !=
          std::string::npos);

    pod.name.name = "second";
    const auto& three = shop.after([&] { shop.cloud.put_workload(pod); });
    REQUIRE(three.workloads.size() == 1);
    CHECK((*three.workloads.begin())->workload.name.name == "store");

    const auto& moved = shop.after([&] { shop.vm.remove_workload({kNs, "store"}); });
    CHECK(moved.workloads.empty());
    CHECK(moved.problems->front().cause.find("none of them is served") != std::string::npos);
  }

  TEST_CASE("a released UUID goes to the other claimant, also of another provider") {
    Shop shop;
    shop.after([&] { shop.cloud.put_workload(workload("impostor", "u1", "admin", "10.0.0.66")); });
    const auto& moved = shop.after(
        [&] { shop.vm.put_workload(workload("store", "u2", "store", "10.0.0.1", {"store"})); });
    CHECK(moved.workloads.size() == 2);
    CHECK(moved.problems->empty());
    const auto& left = shop.after([&] { shop.vm.remove_workload({kNs, "store"}); });
    REQUIRE(left.workloads.size() == 1);
    CHECK((*left.workloads.begin())->workload.account.name == "admin");
  }

  TEST_CASE("only changed workloads are read again, never all") {
    struct Counting final : WorkloadProvider {
      explicit Counting(MemoryEndpointsProvider& inner) : inner_(inner) {}
      std::vector<Workload> list_workloads() const override {
        ++lists;
        return inner_.list_workloads();
      }
      std::optional<Workload> find_workload(const WorkloadName& name) const override {
        ++finds;
        return inner_.find_workload(name);
      }
      std::vector<Problem> list_problems() const override { return {}; }
      Subscription subscribe_workloads(
          std::function<void(const std::vector<WorkloadName>&)> on_change) override {
        return inner_.subscribe_workloads(std::move(on_change));
      }
      MemoryEndpointsProvider& inner_;
      mutable int lists = 0;
      mutable int finds = 0;
    };
    Shop shop;
    for (int i = 0; i < 1000; ++i)
      shop.vm.put_workload(workload("w" + std::to_string(i), "id" + std::to_string(i), "store",
                                    "10.0.0.1", {"store"}));
    Counting counting(shop.vm);
    MeshBuilder builder(shop.spec, {{&shop.vm}}, {&counting}, TrustDomain("cluster.local"));
    REQUIRE(builder.build()->workloads.size() == 1001);
    CHECK(counting.lists == 1);

    shop.vm.put_workload(workload("w7", "id7", "other", "10.0.0.2"));
    shop.vm.remove_workload({kNs, "w8"});
    builder.workloads_changed({{kNs, "w7"}, {kNs, "w8"}, {kNs, "never"}});
    const auto after = builder.build();
    REQUIRE(after);
    CHECK(after->workloads.size() == 1000);
    CHECK(after->changes.workloads.size() == 2);
    CHECK(counting.lists == 1);
    CHECK(counting.finds == 3);

    shop.vm.set_endpoints(service_name("store"), {served_at("10.0.0.5", "store")});
    builder.endpoints_changed({service_name("store")});
    REQUIRE(builder.build());
    CHECK(counting.lists == 1);
    CHECK(counting.finds == 3);
  }

  TEST_CASE("workloads and accounts of namespaces that left the mesh are gone") {
    Shop shop;
    const auto& after = shop.after([&] { shop.spec.remove({kinds::kNamespace, "", kNs}); });
    CHECK(after.workloads.empty());
    CHECK(after.endpoints.find(service_name("store"))->endpoints.empty());
  }
}
