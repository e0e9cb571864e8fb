// The proxies that an object concerns are computed, and remembered after its removal.
#include "catalog/object_scope.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "catalog/object_records.hpp"
#include "mesh_values.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

// buyer → store, whose traffic a split sends to store and annex; store → stock; a lonely one.
struct Shop {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  std::shared_ptr<const model::MeshSnapshot> snapshot;

  explicit Shop(bool permissive = false) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    spec.set_mesh_config(config);
    spec.put_namespace(kNs);
    int address = 0;
    for (const char* name : {"store", "annex", "stock"}) {
      const std::string at = std::to_string(++address);
      spec.put(service(name, "10.1.0." + at));
      vm.set_endpoints(service_name(name), {served_at("10.0.0." + at, name)});
      vm.put_workload(workload(name, std::string("u-") + name, name, "10.0.0." + at, {name}));
    }
    for (const char* name : {"buyer", "lonely"})
      vm.put_workload(workload(name, std::string("u-") + name, name, "10.0.1.1"));
    spec.put(routes("web", {"buy"}));
    spec.put(routes("unused", {"buy"}));
    spec.put(smi::TcpRoute{.name = {kNs, "raw"}, .ports = {}});
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    spec.put(target("store", "stock", {"store"}, {tcp_rule("raw")}));
    spec.put(split("canary", "store", {{"store", 90}, {"annex", 10}}));
    spec.put(routes("outside", {"x"}));
    put_policies();
    snapshot = builder.build();
    REQUIRE(snapshot);
  }
  void put_policies() {
    const auto store = service_name("store");
    const auto lonely = identity("lonely");
    spec.put(Policy({kinds::kRetry, kNs, "again"}, Retry{lonely, {}, {}}));
    Egress egress;
    egress.sources = {lonely};
    egress.route_groups = {"outside"};
    egress.setting = "far";
    spec.put(Policy({kinds::kEgress, kNs, "out"}, egress));
    for (const char* name : {"near", "far"}) {
      UpstreamTrafficSetting setting;
      if (name == std::string("near")) setting.service = store;
      spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, name}, setting));
    }
    IngressBackend ingress;
    ingress.backends = {{service_name("stock"), port(8080), {}}};
    spec.put(Policy({kinds::kIngressBackend, kNs, "in"}, ingress));
    Telemetry telemetry;
    telemetry.open_telemetry = OpenTelemetryLog{{kNs, "collector"}, {}};
    spec.put(Policy({kinds::kTelemetry, kNs, "logs"}, telemetry));
    spec.put(Policy({kinds::kExtensionService, kNs, "collector"},
                    ExtensionService{"collector.example", Port{4317}}));
  }
  // The names of the workloads that the object concerns.
  std::set<std::string> concerned(const GroupKind& kind, const char* name,
                                  const char* ns = kNs) const {
    std::set<std::string> out;
    const ObjectScope scope = scope_of({kind, ns, name}, *snapshot, *builder.policy_index());
    for (const auto& entry : workloads_in(scope, *snapshot)) out.insert(entry->workload.name.name);
    return out;
  }
};

}  // namespace

TEST_SUITE("catalog::scope_of") {
  TEST_CASE("scopes of all kinds of objects") {
    struct Case {
      GroupKind kind;
      const char* name;
      std::set<std::string> concerned;
    };
    const std::set<std::string> everybody{"annex", "buyer", "lonely", "stock", "store"};
    const std::vector<Case> cases{
        {kinds::kTrafficTarget, "buyer", {"buyer", "store"}},
        {kinds::kTrafficTarget, "store", {"stock", "store"}},
        {kinds::kTrafficTarget, "none", {}},
        {kinds::kHttpRouteGroup, "web", {"buyer", "store"}},
        {kinds::kHttpRouteGroup, "unused", {}},
        {kinds::kHttpRouteGroup, "raw", {}},  // of another kind
        {kinds::kTcpRoute, "raw", {"stock", "store"}},
        {kinds::kService, "stock", {"stock", "store"}},
        {kinds::kService, "annex", {"annex", "buyer"}},  // by way of the apex
        {kinds::kTrafficSplit, "canary", {"annex", "buyer", "store"}},
        {kinds::kTrafficSplit, "none", {}},
        {model::kWorkloadKind, "lonely", {"lonely"}},
        {model::kWorkloadKind, "stock", {"stock", "store"}},
        {kinds::kMeshConfig, "osm-mesh-config", everybody},
        {kinds::kNamespace, kNs, everybody},
        {kinds::kRetry, "again", {"lonely"}},
        {kinds::kEgress, "out", {"lonely"}},
        {kinds::kHttpRouteGroup, "outside", {"lonely"}},
        {kinds::kUpstreamTrafficSetting, "far", {"lonely"}},
        {kinds::kUpstreamTrafficSetting, "near", {"annex", "buyer", "store"}},
        {kinds::kIngressBackend, "in", {"stock", "store"}},
        {kinds::kTelemetry, "logs", everybody},
        {kinds::kExtensionService, "collector", everybody},
        {kinds::kRetry, "none", {}},
    };
    const Shop shop;
    const PolicyIndex& index = *shop.builder.policy_index();
    ReaderEntries readers;
    for (const Case& one : cases) {
      CAPTURE(one.kind.kind);
      CAPTURE(one.name);
      CHECK(shop.concerned(one.kind, one.name) == one.concerned);
      const ObjectKey key{one.kind, kNs, one.name};
      CHECK(scope_of(key, *shop.snapshot, index, readers) == scope_of(key, *shop.snapshot, index));
    }
  }

  TEST_CASE("an object that is missing, or not to be used, concerns those that name it") {
    Shop shop;
    Egress egress;
    egress.sources = {identity("buyer")};
    egress.setting = "absent";
    shop.spec.put(Policy({kinds::kEgress, kNs, "vain"}, egress));
    for (const auto& [name, collector] :
         {std::pair("lonely", ExtensionServiceName{"other", "collector"}),
          std::pair("stock", ExtensionServiceName{kNs, "absent"})}) {
      Workload labelled = workload(name, std::string("u-") + name, name, "10.0.2.1");
      labelled.labels = {{"app", name}};
      shop.vm.put_workload(labelled);
      Telemetry telemetry{.selector = labelled.labels};
      telemetry.open_telemetry = OpenTelemetryLog{collector, {}};
      shop.spec.put(Policy({kinds::kTelemetry, kNs, name}, telemetry));
    }
    shop.builder.all_workloads_changed();
    shop.snapshot = shop.builder.build();
    REQUIRE(shop.snapshot);
    using Names = std::set<std::string>;
    CHECK(shop.concerned(kinds::kUpstreamTrafficSetting, "absent") == Names{"buyer"});
    CHECK(shop.concerned(kinds::kExtensionService, "collector", "other") == Names{"lonely"});
    CHECK(shop.concerned(kinds::kExtensionService, "absent") == Names{"stock"});
    CHECK(shop.concerned(kinds::kExtensionService, "collector") ==
          Names{"annex", "buyer", "store"});
  }

  TEST_CASE("in permissive mode services, splits and workloads with services concern all") {
    const Shop shop(true);
    CHECK(shop.concerned(kinds::kService, "stock").size() == 5);
    CHECK(shop.concerned(kinds::kTrafficSplit, "canary").size() == 5);
    CHECK(shop.concerned(model::kWorkloadKind, "stock").size() == 5);
    CHECK(shop.concerned(model::kWorkloadKind, "lonely") == std::set<std::string>{"lonely"});
  }
}

TEST_SUITE("catalog::ObjectRecords") {
  TEST_CASE("a removed object and a former scope are remembered for so many generations") {
    ObjectRecords records;
    const ObjectKey gone{kinds::kTrafficTarget, kNs, "gone"};
    const ObjectKey changed{kinds::kTrafficTarget, kNs, "changed"};
    ObjectScope before;
    before.identities.insert(identity("buyer"));
    records.note(gone, 5, false, before);
    records.note(changed, 5, true, before);
    const auto pass = [&](std::uint64_t generation) {
      records.note({kinds::kService, kNs, "busy"}, generation, true, {});
    };
    pass(5 + ObjectRecords::kRemembered);
    REQUIRE(records.find(gone));
    CHECK_FALSE(records.find(gone)->present);
    CHECK(records.find(changed)->before == before);
    pass(6 + ObjectRecords::kRemembered);
    CHECK_FALSE(records.find(gone));
    REQUIRE(records.find(changed));
    CHECK(records.find(changed)->generation == 5);
    CHECK(records.find(changed)->before == ObjectScope());
    CHECK(records.size() == 2);
  }

  TEST_CASE("an object that changes twice keeps its first scope") {
    ObjectRecords records;
    const ObjectKey target{kinds::kTrafficTarget, kNs, "t"};
    ObjectScope first;
    first.identities.insert(identity("a"));
    ObjectScope second;
    second.identities.insert(identity("b"));
    records.note(target, 1, true, first);
    records.note(target, 2, true, second);
    CHECK(records.find(target)->before.identities == std::set{identity("a"), identity("b")});
  }
}
