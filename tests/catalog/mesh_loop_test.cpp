// The first snapshot waits for all sources, bursts are published once, and throwing providers are
// retried.
#include "catalog/mesh_loop.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "lib/run.hpp"
#include "mesh_values.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;
using osm::testing::MemoryEndpointsProvider;
using osm::testing::MemoryMeshSpec;
using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;

namespace {

struct Sources {
  MemoryMeshSpec spec;
  MemoryEndpointsProvider vm{"vm"};
  RandomRng rng{1};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;

  Sources() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
  }
  MeshLoopOptions options(Executor& executor, const Clock& clock) {
    return {.spec = spec,
            .providers = {{&vm}},
            .workload_providers = {&vm},
            .trust_domain = TrustDomain("cluster.local"),
            .runtime = {executor, executor, clock, rng, log, metrics}};
  }
  void move_store(int to) {
    vm.set_endpoints(service_name("store"), {served_at("10.0.0." + std::to_string(to), "store")});
  }
};

// Announces what a test says, whatever another provider holds, and counts what it is asked.
class FloodProvider final : public EndpointsProvider, public WorkloadProvider {
 public:
  struct Asked {
    std::map<std::string, int> services;  // by name
    int all_workloads = 0;
    int single_workloads = 0;
  };

  explicit FloodProvider(MemoryEndpointsProvider& inner) : inner_(inner) {}
  void announce(const std::vector<ServiceName>& changed) { on_change_(changed); }
  void announce(const std::vector<WorkloadName>& changed) { on_workloads_(changed); }
  std::function<void()> while_asked;  // called within each question but lists of workloads
  // Result: what was asked since the last call.
  Asked asked() { return std::exchange(asked_, {}); }

  std::string id() const override { return "flood"; }
  bool has_synced() const override { return true; }
  bool healthy() const override { return true; }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    ++asked_.services[service.name];
    if (while_asked) while_asked();
    return inner_.list_endpoints_for_service(service);
  }
  std::vector<std::string> list_source_addresses(const ServiceName& service) const override {
    if (while_asked) while_asked();
    return inner_.list_source_addresses(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    on_change_ = std::move(on_change);
    return {};
  }
  std::vector<Workload> list_workloads() const override {
    ++asked_.all_workloads;
    return inner_.list_workloads();
  }
  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    ++asked_.single_workloads;
    if (while_asked) while_asked();
    return inner_.find_workload(name);
  }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>&)> on_change) override {
    on_workloads_ = std::move(on_change);
    return {};
  }

 private:
  MemoryEndpointsProvider& inner_;
  mutable Asked asked_;
  std::function<void(const std::vector<ServiceName>&)> on_change_;
  std::function<void(const std::vector<WorkloadName>&)> on_workloads_;
};

struct Manual : Sources {
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  std::optional<MeshLoop> loop;

  void start() {
    loop.emplace(options(executor, clock));
    executor.run_until_idle();
  }
  // `flood` is its only provider.
  void start_with(FloodProvider& flood) {
    MeshLoopOptions read = options(executor, clock);
    read.providers = {{&flood}};
    read.workload_providers = {&flood};
    loop.emplace(read);
    executor.run_for(1s);
    REQUIRE(generation() == 1);
  }
  std::uint64_t generation() {
    const auto snapshot = loop->snapshots().load();
    return snapshot ? snapshot->generation : 0;
  }
};

}  // namespace

TEST_SUITE("catalog::MeshLoop") {
  TEST_CASE("nothing is published before everything required has synced") {
    Manual mesh;
    mesh.spec.set_synced(false);
    mesh.vm.set_synced(false);
    mesh.start();
    CHECK(mesh.loop->waiting_for() ==
          std::vector<std::string>{"mesh specification", "endpoints provider vm"});
    mesh.spec.set_synced(true);
    mesh.executor.run_for(1s);
    CHECK(mesh.generation() == 0);
    CHECK(mesh.loop->waiting_for() == std::vector<std::string>{"endpoints provider vm"});
    mesh.vm.set_synced(true);
    mesh.executor.run_for(1s);
    CHECK(mesh.generation() == 1);
    CHECK(mesh.loop->waiting_for().empty());
  }

  TEST_CASE("the first change is published at once, a burst after it as one") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    REQUIRE(mesh.generation() == 1);
    mesh.move_store(1);
    mesh.executor.run_until_idle();
    CHECK(mesh.generation() == 2);
    for (int i = 2; i < 6; ++i) {
      mesh.move_store(i);
      mesh.executor.run_for(5ms);
    }
    CHECK(mesh.generation() == 2);
    mesh.executor.run_for(20ms);
    CHECK(mesh.generation() == 3);
    const auto endpoints = mesh.loop->snapshots().load()->endpoints.find(service_name("store"));
    CHECK(endpoints->endpoints.front().address == "10.0.0.5");
  }

  TEST_CASE("the first change of a burst has the time of the snapshot") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    mesh.move_store(1);
    mesh.executor.run_until_idle();
    const auto since = [&] { return mesh.loop->announced_at(); };
    const auto waited = [&] {
      return mesh.metrics.observations("osm_push_stage_seconds", {{"stage", "debounce"}}).back();
    };
    CHECK(since() == mesh.clock.steady_now());
    CHECK(waited() == 0);
    const SteadyTime first = mesh.clock.steady_now();
    for (int i = 2; i < 6; ++i) {
      mesh.move_store(i);
      mesh.executor.run_for(5ms);
    }
    mesh.executor.run_for(20ms);
    REQUIRE(mesh.generation() == 3);
    CHECK(since() == first);
    CHECK(waited() == doctest::Approx(0.035).epsilon(0.2));
  }

  TEST_CASE("changes without a pause are published every 100 ms") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    for (int i = 0; i < 100; ++i) {
      mesh.move_store(1 + i);
      mesh.executor.run_for(10ms);
    }
    CHECK(mesh.generation() >= 9);
    CHECK(mesh.generation() <= 13);
  }

  TEST_CASE("events that change nothing publish nothing") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    mesh.spec.put_service_account(account("nobody"));
    mesh.vm.set_endpoints(service_name("stranger"), {served_at("10.0.0.1", "store")});
    mesh.spec.put(routes("unused", {"x"}));
    mesh.executor.run_for(1s);
    CHECK(mesh.generation() == 1);
  }

  TEST_CASE("other trust domains are a change of everything, the same ones are none") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    TrustDomains domains(TrustDomain("cluster.local"));
    CHECK(mesh.loop->snapshots().load()->accepted_domains == domains.accepted);
    const auto set = [&] {
      mesh.loop->set_trust_domains(domains);
      mesh.executor.run_for(1s);
      return mesh.loop->snapshots().load();
    };
    set();
    domains.signing = TrustDomain("new.example");  // of issuing: no proxy's business
    set();
    CHECK(mesh.generation() == 1);
    domains.accepted = domains.allowed = {TrustDomain("cluster.local"), TrustDomain("new.example")};
    auto now = set();
    CHECK(now->generation == 2);
    CHECK(now->changes.everything);
    CHECK(now->accepted_domains == domains.accepted);
    domains.accepted = {TrustDomain("new.example")};
    now = set();
    CHECK(now->accepted_domains == domains.accepted);
    CHECK(now->allowed_domains == domains.allowed);
    CHECK(now->changes.everything);
  }

  TEST_CASE("a problem is logged once, and its end is logged") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    mesh.spec.put(split("s", "store", {{"gone", 1}}));
    mesh.spec.set_source({kinds::kTrafficSplit, kNs, "s"},
                         {.path = "mesh/a.yaml", .line = 3, .fields = {{"spec.backends", 9}}});
    mesh.executor.run_for(1s);
    mesh.move_store(1);
    mesh.executor.run_for(1s);
    const auto lines =
        mesh.log.lines_with("warning: mesh/a.yaml:9: TrafficSplit shop/s: spec.back");
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].fields.at("file") == "mesh/a.yaml");
    CHECK(lines[0].fields.at("line") == "9");
    mesh.spec.remove({kinds::kTrafficSplit, kNs, "s"});
    mesh.executor.run_for(1s);
    CHECK(mesh.log.count("resolved: TrafficSplit shop/s: spec.backends") == 1);
  }

  TEST_CASE("workload providers that are waited for are named") {
    struct Slow : WorkloadProvider {
      bool workloads_synced() const override { return false; }
      std::vector<Workload> list_workloads() const override { return {}; }
      std::optional<Workload> find_workload(const WorkloadName&) const override { return {}; }
      std::vector<Problem> list_problems() const override { return {}; }
      Subscription subscribe_workloads(
          std::function<void(const std::vector<WorkloadName>&)>) override {
        return {};
      }
    } anonymous;
    struct SlowCloud final : Slow, EndpointsProvider {
      std::string id() const override { return "cloud"; }
      bool has_synced() const override { return true; }
      bool healthy() const override { return true; }
      std::optional<std::vector<Endpoint>> list_endpoints_for_service(
          const ServiceName&) const override {
        return std::nullopt;
      }
      Subscription subscribe(std::function<void(const std::vector<ServiceName>&)>) override {
        return {};
      }
    } cloud;
    Manual mesh;
    MeshLoopOptions options = mesh.options(mesh.executor, mesh.clock);
    options.workload_providers = {&cloud, &mesh.vm, &anonymous};
    mesh.loop.emplace(options);
    mesh.executor.run_for(1s);
    CHECK(mesh.loop->waiting_for() ==
          std::vector<std::string>{"workload provider cloud", "workload provider #3"});
    CHECK(mesh.generation() == 0);
  }

  TEST_CASE("a provider that throws is asked again until it answers") {
    struct Fragile final : public WorkloadProvider {
      bool broken = true;
      std::vector<Workload> list_workloads() const override {
        if (broken) throw std::runtime_error("not now");
        return {workload("w", "u", "store", "10.0.0.1")};
      }
      std::optional<Workload> find_workload(const WorkloadName&) const override {
        return list_workloads().front();
      }
      std::vector<Problem> list_problems() const override { return {}; }
      Subscription subscribe_workloads(
          std::function<void(const std::vector<WorkloadName>&)>) override {
        throw std::runtime_error("no subscriptions");
      }
    } fragile;
    Manual mesh;
    MeshLoopOptions options = mesh.options(mesh.executor, mesh.clock);
    options.workload_providers = {&fragile};
    mesh.loop.emplace(options);
    mesh.executor.run_for(1500ms);
    REQUIRE(mesh.generation() == 1);
    CHECK(mesh.loop->snapshots().load()->problems->size() == 1);
    fragile.broken = false;
    mesh.executor.run_for(1500ms);
    CHECK(mesh.loop->snapshots().load()->problems->empty());
    CHECK(mesh.loop->snapshots().load()->workloads.size() == 1);
    CHECK(mesh.executor.timers() == 0);
  }

  TEST_CASE("100,000 invented names cost one full read, and no change is missed") {
    Manual mesh;
    for (const char* name : {"web", "mail"}) mesh.spec.put(service(name, "10.1.0.9"));
    FloodProvider flood(mesh.vm);
    mesh.start_with(flood);
    flood.asked();

    mesh.vm.set_endpoints(service_name("store"), {served_at("10.0.0.77", "store")});
    mesh.vm.put_workload(workload("w", "u", "store", "10.0.0.77"));
    flood.announce(std::vector{service_name("store")});
    flood.announce(std::vector{WorkloadName{kNs, "w"}});
    for (int i = 0; i < 100'000; ++i) {
      const std::string name = "s" + std::to_string(i);
      flood.announce(std::vector<ServiceName>{{"nowhere", name}});
      flood.announce(std::vector<WorkloadName>{{"nowhere", name}});
    }
    mesh.executor.run_for(1s);
    const auto snapshot = mesh.loop->snapshots().load();
    CHECK(snapshot->generation == 2);
    CHECK(snapshot->endpoints.find(service_name("store"))->endpoints.front().address ==
          "10.0.0.77");
    CHECK(snapshot->workloads.size() == 1);
    const FloodProvider::Asked whole = flood.asked();
    CHECK(whole.services == std::map<std::string, int>{{"store", 1}, {"web", 1}, {"mail", 1}});
    CHECK(whole.all_workloads == 1);
    CHECK(whole.single_workloads == 0);

    // The flood is over: names are read one by one again.
    flood.announce(std::vector{service_name("web")});
    flood.announce(std::vector{WorkloadName{kNs, "w"}});
    mesh.executor.run_for(1s);
    const FloodProvider::Asked single = flood.asked();
    CHECK(single.services == std::map<std::string, int>{{"web", 1}});
    CHECK(single.all_workloads == 0);
    CHECK(single.single_workloads == 1);
  }

  TEST_CASE("a provider that does not answer is told as a hang, and a long build is none") {
    Manual mesh;
    for (const char* name : {"a", "b", "c", "d"}) mesh.spec.put(service(name, "10.1.0.9"));
    FloodProvider flood(mesh.vm);
    int asked = 0;
    flood.while_asked = [&] {
      // Each of the first four Services takes 20 s, and the last one 30.
      CHECK(mesh.loop->alive().ok());
      mesh.clock.advance(++asked == 5 ? 30s : 20s);
      CHECK(mesh.loop->alive().ok() == (asked < 5));
    };
    MeshLoopOptions options = mesh.options(mesh.executor, mesh.clock);
    options.providers = {{&flood}};
    mesh.loop.emplace(options);
    mesh.executor.run_for(1s);
    CHECK(asked == 5);
    CHECK(mesh.generation() == 1);
    CHECK(mesh.loop->alive().ok());
  }

  TEST_CASE("many workload providers that each take 5 s are no hang") {
    struct SlowWorkloads final : WorkloadProvider {
      std::function<void()> while_asked;

      std::vector<Workload> list_workloads() const override {
        while_asked();
        return {};
      }
      std::optional<Workload> find_workload(const WorkloadName&) const override { return {}; }
      std::vector<Problem> list_problems() const override { return {}; }
      Subscription subscribe_workloads(
          std::function<void(const std::vector<WorkloadName>&)>) override {
        return {};
      }
    } slow;
    Manual mesh;
    int asked = 0;
    slow.while_asked = [&] {
      CHECK(mesh.loop->alive().ok());
      mesh.clock.advance(5s);
      CHECK(mesh.loop->alive().ok());
      ++asked;
    };
    MeshLoopOptions options = mesh.options(mesh.executor, mesh.clock);
    options.workload_providers = std::vector<WorkloadProvider*>(8, &slow);
    mesh.loop.emplace(options);
    mesh.executor.run_for(1s);
    CHECK(asked == 8);
    CHECK(mesh.generation() == 1);
    const auto took = mesh.metrics.observations("osm_mesh_snapshot_build_seconds");
    REQUIRE(took.size() == 1);
    CHECK(took.front() == doctest::Approx(40));
  }

  TEST_CASE("many questions that each take 5 s are no hang, about workloads and sources too") {
    Manual mesh;
    FloodProvider flood(mesh.vm);
    mesh.start_with(flood);

    int asked = 0;
    flood.while_asked = [&] {
      CHECK(mesh.loop->alive().ok());
      mesh.clock.advance(5s);
      CHECK(mesh.loop->alive().ok());
      ++asked;
    };
    SUBCASE("eight workloads changed") {
      for (int i = 0; i < 8; ++i) {
        const std::string name = "w" + std::to_string(i);
        mesh.vm.put_workload(
            workload(name, "u" + name, "store", "10.0.0." + std::to_string(i + 1)));
        flood.announce(std::vector{WorkloadName{kNs, name}});
      }
      mesh.executor.run_for(1s);
      CHECK(mesh.loop->snapshots().load()->workloads.size() == 8);
    }
    SUBCASE("an IngressBackend names eight Services as sources") {
      IngressBackend in;
      for (int i = 0; i < 8; ++i)
        in.services.push_back({{"edge", "gateway" + std::to_string(i)}, 0});
      mesh.spec.put(Policy({kinds::kIngressBackend, kNs, "in"}, in));
      mesh.executor.run_for(1s);
    }
    CHECK(asked == 8);
  }

  TEST_CASE("after stop nothing is published, and stopping again does nothing") {
    Manual mesh;
    mesh.start();
    mesh.executor.run_for(1s);
    mesh.move_store(1);
    mesh.loop->stop();
    mesh.loop->stop();
    mesh.move_store(2);
    mesh.executor.run_for(1s);
    CHECK(mesh.generation() == 1);
  }

  TEST_CASE("a subscriber of its snapshots may destroy the loop") {
    for (const bool by_timer : {false, true}) {
      CAPTURE(by_timer);
      Manual mesh;
      mesh.start();
      mesh.executor.run_for(1s);
      if (by_timer) {
        mesh.move_store(7);
        mesh.executor.run_until_idle();
      }
      int seen = 0;
      Subscription subscription = mesh.loop->snapshots().subscribe([&](const SnapshotPtr&) {
        ++seen;
        mesh.loop.reset();
      });
      mesh.move_store(1);
      mesh.executor.run_for(1s);
      CHECK(seen == 1);
      CHECK_FALSE(mesh.loop.has_value());
      mesh.move_store(2);
      mesh.executor.run_for(1s);
      CHECK(seen == 1);
    }
  }

  TEST_CASE("with real threads the last change always arrives and generations never skip") {
    Sources sources;
    SystemClock clock;
    osm::testing::ThreadExecutor executor(3);
    MeshLoop loop(sources.options(executor, clock));
    std::atomic<std::uint64_t> last = 0;
    std::atomic<bool> in_order = true;
    const Subscription subscription = loop.snapshots().subscribe([&](const SnapshotPtr& snapshot) {
      if (last != 0 && snapshot->generation != last + 1) in_order = false;
      last = snapshot->generation;
    });
    std::thread endpoints([&] {
      for (int i = 0; i < 300; ++i) sources.move_store(1 + i % 50);
      sources.move_store(99);
    });
    std::thread policies([&] {
      sources.spec.put(routes("web", {"buy"}));
      for (int i = 0; i < 300; ++i) {
        const std::string source = "client" + std::to_string(i % 5);
        sources.spec.put(target("t", "store", {source}, {http_rule("web", {"buy"})}));
      }
      sources.spec.put(target("t", "store", {"winner"}, {http_rule("web", {"buy"})}));
    });
    std::thread readers([&] {
      for (int i = 0; i < 300; ++i) static_cast<void>(loop.waiting_for());
    });
    endpoints.join();
    policies.join();
    readers.join();
    CHECK(osm::testing::wait_until([&] {
      const auto snapshot = loop.snapshots().load();
      if (!snapshot) return false;
      const auto store = snapshot->endpoints.find(service_name("store"));
      return store && !store->endpoints.empty() &&
             store->endpoints.front().address == "10.0.0.99" &&
             !snapshot->upstreams_of(identity("winner"))->empty();
    }));
    CHECK(in_order);
  }

  TEST_CASE("the loop may be destroyed while events arrive") {
    auto random = osm::testing::seeded();
    SystemClock clock;
    const int rounds = osm::testing::steps(50, 1'000);
    for (int round = 0; round < rounds; ++round) {
      Sources sources;
      osm::testing::ThreadExecutor executor(2);
      std::optional<MeshLoop> loop;
      loop.emplace(sources.options(executor, clock));
      std::atomic<bool> done = false;
      std::atomic<int> events = 0;
      std::thread storm([&] {
        for (int i = 0; !done; ++i) {
          sources.move_store(1 + i % 100);
          sources.spec.put(target("t" + std::to_string(i % 3), "store", {"c"}, {}));
          ++events;
        }
      });
      const int enough = std::uniform_int_distribution<int>(0, 40)(random);
      CHECK(osm::testing::wait_until([&] { return events >= enough; }));
      loop.reset();
      done = true;
      storm.join();
    }
  }
}
