// The index tells the entries and the proxies that an object concerns, and records remember them
// after its removal.
#include "model/mesh_index.hpp"

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
#include "osm/values/denylist.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/retry.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/telemetry.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

constexpr GroupKind kGreeting{"vendor.example", "Greeting"};

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
    spec.put(Policy({kinds::kRetry, kNs, "again"}, Retry{lonely, {store}, {"5xx", 1, {}, {}}}));
    Egress egress;
    egress.sources = {lonely};
    egress.ports = {{port(80), EgressProtocol::kHttp}};
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
    ingress.networks = {"10.9.0.0/16"};
    spec.put(Policy({kinds::kIngressBackend, kNs, "in"}, ingress));
    Telemetry telemetry;
    telemetry.open_telemetry = OpenTelemetryLog{{kNs, "collector"}, {}};
    spec.put(Policy({kinds::kTelemetry, kNs, "logs"}, telemetry));
    spec.put(Policy({kinds::kExtensionService, kNs, "collector"},
                    ExtensionService{"collector.example", Port{4317}}));
    spec.put(Policy({kinds::kServiceProvider, kNs, "order"},
                    ServiceProvider{service_name("stock"), {{"vm", {}}}, false}));
    spec.put(Policy({kinds::kDenylist, kNs, "stolen"}, Denylist()));
    spec.put(Policy({kGreeting, kNs, "one"}, std::string("hi"), {lonely}));
    spec.put(Policy({kGreeting, kNs, "all"}, std::string("hi")));
  }
  // The names of the workloads that the object concerns.
  std::set<std::string> concerned(const GroupKind& kind, const char* name,
                                  const char* ns = kNs) const {
    return names_of(model::entries_of({kind, ns, name}, *snapshot));
  }
  std::set<std::string> names_of(const std::set<model::EntryKey>& entries) const {
    std::set<std::string> out;
    for (const auto& entry : model::workloads_in(entries, *snapshot))
      out.insert(entry->workload.name.name);
    return out;
  }
};

}  // namespace

TEST_SUITE("catalog: model::MeshIndex") {
  TEST_CASE("the proxies of all kinds of objects") {
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
        {kinds::kService, "annex", {"annex", "buyer"}},           // by way of the apex
        {kinds::kService, "store", {"annex", "buyer", "store"}},  // an apex, with its backends
        {kinds::kService, "none", {}},
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
        {kinds::kServiceProvider, "order", {"stock", "store"}},
        {kinds::kDenylist, "stolen", everybody},
        {kGreeting, "one", {"lonely"}},
        {kGreeting, "all", everybody},
    };
    const Shop shop;
    for (const Case& one : cases) {
      CAPTURE(one.kind.kind);
      CAPTURE(one.name);
      CHECK(shop.concerned(one.kind, one.name) == one.concerned);
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

  TEST_CASE("objects that go at once concern the proxies that they concerned") {
    struct Case {
      GroupKind kind;
      const char* name;
      std::set<std::string> before;
      std::set<std::string> after;  // of the key
    };
    const std::set<std::string> everybody{"annex", "buyer", "lonely", "stock", "store"};
    const std::set<std::string> apex{"annex", "buyer", "store"};
    const std::vector<Case> cases{
        {kinds::kTrafficTarget, "buyer", {"buyer", "store"}, {}},
        {kinds::kHttpRouteGroup, "web", {"buyer", "store"}, {}},
        {kinds::kTcpRoute, "raw", {"stock", "store"}, {"stock", "store"}},
        {kinds::kService, "store", apex, {}},
        {kinds::kTrafficSplit, "canary", apex, {}},
        {kinds::kUpstreamTrafficSetting, "near", apex, {}},
        {kinds::kUpstreamTrafficSetting, "far", {"lonely"}, {"lonely"}},
        {kinds::kIngressBackend, "in", {"stock", "store"}, {}},
        {kinds::kExtensionService, "collector", everybody, everybody},
        {kGreeting, "one", {"lonely"}, {}},
    };
    Shop shop;
    for (const Case& one : cases) shop.spec.remove({one.kind, kNs, one.name});
    shop.snapshot = shop.builder.build();
    REQUIRE(shop.snapshot);
    for (const Case& one : cases) {
      CAPTURE(one.kind.kind);
      CAPTURE(one.name);
      const ObjectChange& change = shop.builder.object_changes().at({one.kind, kNs, one.name});
      CHECK_FALSE(change.present);
      CHECK(shop.names_of(change.before) == one.before);
      CHECK(shop.concerned(one.kind, one.name) == one.after);
    }
  }

  TEST_CASE("denied accounts are still concerned by the Services that they might call") {
    Shop shop;
    Denylist list;
    list.accounts.push_back(identity("buyer"));
    shop.spec.put(Policy({kinds::kDenylist, kNs, "stolen"}, std::move(list)));
    shop.snapshot = shop.builder.build();
    REQUIRE(shop.snapshot);
    CHECK(shop.snapshot->denied->accounts.contains(identity("buyer")));
    CHECK(shop.concerned(kinds::kService, "store") ==
          std::set<std::string>{"annex", "buyer", "store"});
  }

  TEST_CASE("in permissive mode services, splits and workloads with services concern all") {
    const Shop shop(true);
    CHECK(shop.concerned(kinds::kService, "stock").size() == 5);
    CHECK(shop.concerned(kinds::kTrafficSplit, "canary").size() == 5);
    CHECK(shop.concerned(model::kWorkloadKind, "stock").size() == 5);
    CHECK(shop.concerned(model::kWorkloadKind, "lonely") == std::set<std::string>{"lonely"});
    CHECK(shop.concerned(kinds::kUpstreamTrafficSetting, "near").size() == 5);
    CHECK(shop.concerned(kinds::kIngressBackend, "in").size() == 5);
    CHECK(shop.concerned(kinds::kServiceProvider, "order").size() == 5);
    CHECK(shop.concerned(kinds::kRetry, "again") == std::set<std::string>{"lonely"});
  }

  TEST_CASE("both directions, and the clients of Services, follow changes") {
    Shop shop;
    const auto texts = [](const auto& keys) {
      std::set<std::string> out;
      for (const auto& key : keys) out.insert(key->str());
      return out;
    };
    using Texts = std::set<std::string>;
    const auto objects_of = [&](const model::EntryKey& entry) {
      return texts(shop.snapshot->index.objects_of(entry));
    };
    const auto clients_of = [&](const char* name) {
      return texts(shop.snapshot->index.clients_of(service_name(name)));
    };
    CHECK(objects_of(identity("buyer")) == Texts{"TrafficTarget shop/buyer"});
    CHECK(objects_of(service_name("annex")) ==
          Texts{"Service shop/annex", "TrafficSplit shop/canary"});
    CHECK(objects_of(smi::ObjectName{kNs, "buyer"}) == Texts{"TrafficTarget shop/buyer"});
    CHECK(objects_of(model::EntryKey()) ==
          Texts{"Denylist shop/stolen", "Greeting.vendor.example shop/all"});
    CHECK(texts(shop.snapshot->index.readers_of({kinds::kHttpRouteGroup, kNs, "web"})) ==
          Texts{"TrafficTarget shop/buyer"});
    CHECK(clients_of("store") == Texts{"shop/buyer"});
    CHECK(clients_of("annex") == Texts{"shop/buyer"});
    const auto before = shop.snapshot;
    shop.spec.remove({kinds::kTrafficTarget, kNs, "buyer"});
    shop.snapshot = shop.builder.build();
    REQUIRE(shop.snapshot);
    CHECK(objects_of(identity("buyer")).empty());
    CHECK(clients_of("store").empty());
    CHECK(clients_of("annex").empty());
    CHECK(clients_of("stock") == Texts{"shop/store"});
    CHECK(texts(before->index.clients_of(service_name("store"))) == Texts{"shop/buyer"});
  }
}

TEST_SUITE("catalog::ObjectRecords") {
  TEST_CASE("a removed object and former entries are remembered for so many generations") {
    ObjectRecords records;
    const ObjectKey gone{kinds::kTrafficTarget, kNs, "gone"};
    const ObjectKey changed{kinds::kTrafficTarget, kNs, "changed"};
    const std::set<model::EntryKey> before{identity("buyer")};
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
    CHECK(records.find(changed)->before.empty());
    CHECK(records.size() == 2);
  }

  TEST_CASE("an object that changes twice keeps its first entries") {
    ObjectRecords records;
    const ObjectKey target{kinds::kTrafficTarget, kNs, "t"};
    records.note(target, 1, true, {identity("a")});
    records.note(target, 2, true, {identity("b")});
    CHECK(records.find(target)->before == std::set<model::EntryKey>{identity("a"), identity("b")});
  }
}
