// Objects are pending, live or removed by generation, and waiters hear of each change.
#include <doctest/doctest.h>

#include <chrono>
#include <optional>

#include "catalog/mesh_loop.hpp"
#include "mesh_values.hpp"
#include "model/own_ports.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"
#include "readiness_fixture.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

struct Mesh {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  RandomRng rng{1};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  FakeReadiness readiness;
  std::optional<MeshLoop> loop;

  Mesh() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    vm.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store")});
    vm.put_workload(workload("store", "u1", "store", "10.0.0.1", {"store"}));
    spec.put(routes("web", {"buy"}));
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    loop.emplace(MeshLoopOptions{.spec = spec,
                                 .providers = {{&vm}},
                                 .workload_providers = {&vm},
                                 .trust_domain = TrustDomain("cluster.local"),
                                 .runtime = {executor, executor, clock, rng, log, metrics},
                                 .readiness = &readiness});
  }
  void settle() { executor.run_for(1s); }
  // A second machine joins the store, beside whatever else changes.
  void join(const char* address = "10.0.0.2") {
    vm.put_workload(workload("second", "u2", "store", address, {"store"}));
    vm.set_endpoints(service_name("store"),
                     {served_at("10.0.0.1", "store"), served_at(address, "store")});
  }
  // Ports and callers that the second machine is to serve.
  model::Serving serving() {
    const auto snapshot = loop->snapshots().load();
    const Workload second = workload("second", "u2", "store", "10.0.0.2", {"store"});
    return {model::own_ports_of(snapshot->services, second).ports,
            snapshot->admits_of(identity("store"))};
  }
  std::size_t endpoints() {
    return loop->snapshots().load()->endpoints.find(service_name("store"))->endpoints.size();
  }
  ObjectState state(const GroupKind& kind, const char* name) const {
    return loop->object_state({kind, kNs, name});
  }
};

const model::ProxyKey kSecond{kNs, ProxyId("u2")};

}  // namespace

TEST_SUITE("catalog::MeshLoop objects") {
  TEST_CASE("before the first generation nothing is told, then everything is live in it") {
    Mesh mesh;
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").snapshot == nullptr);
    mesh.settle();
    const ObjectState state = mesh.state(kinds::kTrafficTarget, "buyer");
    REQUIRE(state.snapshot);
    CHECK(state.generation == 1);
    CHECK(state.present);
    CHECK_FALSE(state.pending);
    CHECK(mesh.loop->object_state({kinds::kMeshConfig, "", ""}).generation == 1);
    CHECK(mesh.state(kinds::kTrafficTarget, "none").generation == 0);
  }

  TEST_CASE("a change is pending from the moment it is written until a generation holds it") {
    Mesh mesh;
    mesh.settle();
    mesh.spec.put(target("buyer", "store", {"thief"}, {http_rule("web", {"buy"})}));
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").pending);
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").generation == 1);
    CHECK_FALSE(mesh.state(kinds::kHttpRouteGroup, "web").pending);
    mesh.settle();
    const ObjectState state = mesh.state(kinds::kTrafficTarget, "buyer");
    CHECK_FALSE(state.pending);
    CHECK(state.generation == 2);
    // Whoever lost its right is concerned too.
    CHECK(state.scope.identities ==
          std::set{identity("buyer"), identity("store"), identity("thief")});
    CHECK(mesh.state(kinds::kHttpRouteGroup, "web").generation == 1);
  }

  TEST_CASE("a change without effect is live in the generation that is current") {
    Mesh mesh;
    mesh.settle();
    mesh.vm.set_endpoints(service_name("store"), {});
    mesh.settle();
    mesh.spec.put(routes("unused", {"buy"}));
    CHECK(mesh.state(kinds::kHttpRouteGroup, "unused").pending);
    mesh.settle();
    CHECK(mesh.state(kinds::kHttpRouteGroup, "unused").generation == 2);
    CHECK(mesh.loop->snapshots().load()->generation == 2);
  }

  TEST_CASE("a removed object is remembered with whom it concerned") {
    Mesh mesh;
    mesh.settle();
    mesh.spec.remove({kinds::kTrafficTarget, kNs, "buyer"});
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").pending);
    mesh.settle();
    const ObjectState state = mesh.state(kinds::kTrafficTarget, "buyer");
    CHECK_FALSE(state.present);
    CHECK(state.generation == 2);
    CHECK(state.scope.identities == std::set{identity("buyer"), identity("store")});
  }

  TEST_CASE("a machine is as new as its workload and as the endpoints of its services") {
    Mesh mesh;
    mesh.settle();
    mesh.vm.put_workload(workload("store", "u1", "store", "10.0.0.7", {"store"}));
    CHECK(mesh.state(model::kWorkloadKind, "store").pending);
    mesh.settle();
    CHECK(mesh.state(model::kWorkloadKind, "store").generation == 2);
    mesh.vm.set_endpoints(service_name("store"), {served_at("10.0.0.7", "store")});
    CHECK(mesh.state(model::kWorkloadKind, "store").pending);
    mesh.settle();
    const ObjectState state = mesh.state(model::kWorkloadKind, "store");
    CHECK_FALSE(state.pending);
    CHECK(state.generation == 3);
    CHECK(state.scope.identities == std::set{identity("buyer")});
  }

  TEST_CASE("waiting callers are notified of every read, also without a change") {
    Mesh mesh;
    mesh.settle();
    int looks = 0;
    const Subscription subscription = mesh.loop->subscribe_looks([&] { ++looks; });
    mesh.spec.put(routes("unused", {"buy"}));
    mesh.settle();
    CHECK(looks == 1);
  }

  TEST_CASE("staleness of a provider rises and is reset when it answers again") {
    Mesh mesh;
    const auto age = [&] { return mesh.metrics.sum("osm_provider_staleness_seconds"); };
    mesh.settle();
    CHECK(age() == 0);
    mesh.vm.set_healthy(false);
    mesh.executor.run_for(30s);
    CHECK(age() > 28);
    CHECK(age() <= 30);
    mesh.vm.set_healthy(true);
    mesh.settle();
    CHECK(age() == 0);
  }

  TEST_CASE("an object of which nothing is in the mesh has no effect") {
    Mesh mesh;
    mesh.settle();
    const auto effective = [&](const GroupKind& kind, const char* name) {
      mesh.settle();
      const ObjectState state = mesh.state(kind, name);
      CHECK(state.present);
      return state.effective;
    };
    CHECK(effective(kinds::kTrafficTarget, "buyer"));
    mesh.spec.put(target("buyer", "store", {"buyer"}, {http_rule("gone", {"buy"})}));
    CHECK_FALSE(effective(kinds::kTrafficTarget, "buyer"));

    mesh.spec.put(split("b", "store", {{"store", 1}}));
    CHECK(effective(kinds::kTrafficSplit, "b"));
    mesh.spec.put(split("a", "store", {{"store", 1}}));  // the first by name is used
    CHECK(effective(kinds::kTrafficSplit, "a"));
    CHECK_FALSE(effective(kinds::kTrafficSplit, "b"));
    mesh.spec.put(split("none", "gone", {{"store", 1}}));
    CHECK_FALSE(effective(kinds::kTrafficSplit, "none"));

    const auto retry = [&](const char* name, const char* to) {
      Retry value{identity("buyer"), {service_name(to)}, {.retry_on = "5xx"}};
      mesh.spec.put(Policy({kinds::kRetry, kNs, name}, value));
    };
    retry("first", "store");
    CHECK_FALSE(effective(kinds::kRetry, "first"));  // the flag is off
    MeshConfig config;
    config.proxy.retries = true;
    mesh.spec.set_mesh_config(config);
    CHECK(effective(kinds::kRetry, "first"));
    retry("second", "store");
    CHECK_FALSE(effective(kinds::kRetry, "second"));
    retry("second", "gone");
    CHECK_FALSE(effective(kinds::kRetry, "second"));

    const auto limit = [&](const char* name, const char* service) {
      UpstreamTrafficSetting value{service_name(service), {}};
      mesh.spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, name}, value));
    };
    limit("first", "store");
    limit("second", "store");
    limit("third", "gone");
    CHECK(effective(kinds::kUpstreamTrafficSetting, "first"));
    CHECK_FALSE(effective(kinds::kUpstreamTrafficSetting, "second"));
    CHECK_FALSE(effective(kinds::kUpstreamTrafficSetting, "third"));

    Egress pay;
    pay.sources = {identity("buyer")};
    pay.ports = {{port(443), EgressProtocol::kTcp}};
    pay.setting = "third";
    const Policy egress({kinds::kEgress, kNs, "pay"}, pay);
    mesh.spec.put(egress);
    CHECK(effective(kinds::kEgress, "pay"));
    CHECK(effective(kinds::kUpstreamTrafficSetting, "third"));  // it limits hosts of the Egress
    config.proxy.egress = true;
    mesh.spec.set_mesh_config(config);
    CHECK_FALSE(effective(kinds::kEgress, "pay"));
    CHECK_FALSE(effective(kinds::kUpstreamTrafficSetting, "third"));

    IngressBackend open;
    open.backends = {{.service = service_name("store"), .target_port = port(8080), .tls = {}}};
    mesh.spec.put(Policy({kinds::kIngressBackend, kNs, "open"}, open));
    CHECK(effective(kinds::kIngressBackend, "open"));
    mesh.spec.put(Policy({kinds::kIngressBackend, kNs, "zz"}, open));
    CHECK_FALSE(effective(kinds::kIngressBackend, "zz"));

    ServiceProvider order{service_name("store"), {{"vm", {}}}, false};
    mesh.spec.put(Policy({kinds::kServiceProvider, kNs, "a"}, order));
    mesh.spec.put(Policy({kinds::kServiceProvider, kNs, "b"}, order));
    CHECK(effective(kinds::kServiceProvider, "a"));
    CHECK_FALSE(effective(kinds::kServiceProvider, "b"));

    CHECK(effective(kinds::kService, "store"));
    mesh.spec.put(service("a-store", "10.1.0.1"));  // the first by name has the address
    CHECK_FALSE(effective(kinds::kService, "store"));
  }

  TEST_CASE("a machine is pending until its endpoint is announced, and newer by that generation") {
    Mesh mesh;
    mesh.settle();
    mesh.readiness.connect(kSecond);
    mesh.join();
    mesh.settle();
    CHECK(mesh.endpoints() == 1);
    CHECK(mesh.metrics.value("osm_endpoints_waiting") == 1);
    CHECK(mesh.state(model::kWorkloadKind, "second").pending);
    CHECK_FALSE(mesh.state(model::kWorkloadKind, "store").pending);
    int looks = 0;
    const Subscription subscription = mesh.loop->subscribe_looks([&] { ++looks; });
    mesh.readiness.acknowledge(kSecond, mesh.serving());
    mesh.settle();
    CHECK(looks == 1);
    CHECK(mesh.endpoints() == 2);
    CHECK(mesh.metrics.value("osm_endpoints_waiting") == 0);
    CHECK(mesh.metrics.sum("osm_endpoints_announced_late_total") == 0);
    const ObjectState state = mesh.state(model::kWorkloadKind, "second");
    CHECK_FALSE(state.pending);
    CHECK(state.generation == mesh.loop->snapshots().load()->generation);
  }

  TEST_CASE("a proxy that is ready before the build has ended announces its endpoint too") {
    Mesh mesh;
    mesh.settle();
    mesh.readiness.connect(kSecond);
    mesh.join();
    const auto serving = mesh.serving();
    const Subscription subscription =
        mesh.loop->subscribe_looks([&] { mesh.readiness.acknowledge(kSecond, serving); });
    mesh.settle();
    CHECK(mesh.endpoints() == 2);
  }

  TEST_CASE("without an acknowledgement the machine is live after five seconds") {
    Mesh mesh;
    mesh.settle();
    mesh.readiness.connect(kSecond);
    mesh.join();
    mesh.executor.run_for(4900ms);
    CHECK(mesh.endpoints() == 1);
    mesh.executor.run_for(200ms);
    CHECK(mesh.endpoints() == 2);
    CHECK_FALSE(mesh.state(model::kWorkloadKind, "second").pending);
    CHECK(mesh.metrics.sum("osm_endpoints_announced_late_total") == 1);
  }

  TEST_CASE("an object that came with an endpoint is live when that is announced, older ones are") {
    Mesh mesh;
    mesh.settle();
    mesh.readiness.connect(kSecond);
    mesh.spec.put(target("buyer", "store", {"thief"}, {http_rule("web", {"buy"})}));
    mesh.join();
    mesh.settle();
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").pending);
    CHECK_FALSE(mesh.state(kinds::kHttpRouteGroup, "web").pending);
    mesh.spec.put(routes("web", {"sell"}));  // a later generation
    mesh.settle();
    CHECK_FALSE(mesh.state(kinds::kHttpRouteGroup, "web").pending);
    mesh.readiness.acknowledge(kSecond, mesh.serving());
    mesh.settle();
    const std::uint64_t newest = mesh.loop->snapshots().load()->generation;
    CHECK_FALSE(mesh.state(kinds::kTrafficTarget, "buyer").pending);
    CHECK(mesh.state(kinds::kTrafficTarget, "buyer").generation == newest);
    CHECK(mesh.state(kinds::kHttpRouteGroup, "web").generation < newest);
  }

  TEST_CASE("a permission is pending until clients know it, also if it changes meanwhile") {
    Mesh mesh;
    mesh.vm.put_workload(workload("second", "u2", "other", "10.0.0.2", {"store"}));
    mesh.vm.set_endpoints(service_name("store"),
                          {served_at("10.0.0.1", "store"), served_at("10.0.0.2", "other")});
    mesh.settle();
    mesh.readiness.connect(kSecond);
    const auto put = [&](const std::vector<std::string>& sources) {
      mesh.spec.put(target("also", "other", sources, {http_rule("web", {"buy"})}));
      mesh.settle();
      return mesh.state(kinds::kTrafficTarget, "also").pending;
    };
    CHECK(put({"buyer"}));
    CHECK(mesh.metrics.value("osm_permissions_waiting") == 1);
    CHECK(put({"buyer", "thief"}));
    CHECK_FALSE(mesh.state(kinds::kTrafficTarget, "buyer").pending);
    mesh.executor.run_for(3100ms);
    CHECK_FALSE(mesh.state(kinds::kTrafficTarget, "also").pending);
    CHECK(mesh.state(kinds::kTrafficTarget, "also").generation ==
          mesh.loop->snapshots().load()->generation);
    CHECK(mesh.metrics.value("osm_permissions_waiting") == 0);
    CHECK(mesh.metrics.sum("osm_permissions_announced_late_total") == 1);
  }

  TEST_CASE("a MeshConfig is pending while clients keep to the policies of before") {
    Mesh mesh;
    mesh.settle();
    mesh.readiness.connect({kNs, ProxyId("u1")});
    MeshConfig config = mesh.spec.get_mesh_config();
    const auto is_pending = [&] {
      return mesh.loop->object_state(model::mesh_config_key()).pending;
    };
    config.proxy.permissive = true;
    mesh.spec.set_mesh_config(config);
    mesh.settle();
    CHECK(is_pending());
    config.proxy.retries = true;
    mesh.spec.set_mesh_config(config);
    mesh.settle();
    CHECK(is_pending());
    CHECK(mesh.loop->snapshots().load()->smi_upstreams);
    mesh.executor.run_for(3100ms);
    CHECK_FALSE(is_pending());
    CHECK_FALSE(mesh.loop->snapshots().load()->smi_upstreams);
  }
}
