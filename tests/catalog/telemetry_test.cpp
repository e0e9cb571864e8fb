// The most specific Telemetry is in effect, labels that no selector uses change nothing, a
// collector is in the Telemetry's namespace or the control plane's.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "catalog/mesh_builder.hpp"
#include "mesh_values.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/telemetry.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

using Labels = std::map<std::string, std::string>;

const std::string kOsm = "osm-system";
const std::string kUuid = "11111111-1111-4111-8111-111111111111";
const std::string kOther = "22222222-2222-4222-8222-222222222222";

// Two machines, labelled app=web and app=api.
struct Shop {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  std::shared_ptr<const model::MeshSnapshot> last;

  Shop() {
    spec.put_namespace(kNs);
    label("web", kUuid, {{"app", "web"}});
    label("api", kOther, {{"app", "api"}});
    REQUIRE(next());
  }

  void label(const std::string& name, const std::string& uuid, const Labels& labels) {
    Workload made = workload(name, uuid, name, "10.0.0.1");
    made.labels = labels;
    vm.put_workload(made);
    builder.workloads_changed({made.name});
  }
  // False: nothing differs.
  bool next() {
    const auto built = builder.build();
    if (built) last = built;
    return built != nullptr;
  }
  void put(const std::string& ns, const std::string& name, const Telemetry& telemetry) {
    spec.put(Policy({kinds::kTelemetry, ns, name}, telemetry));
  }
  void put_server(const std::string& ns, const std::string& name, const std::string& host) {
    spec.put(Policy({kinds::kExtensionService, ns, name}, ExtensionService{host, Port{4317}}));
  }
  std::string of(const std::string& uuid) const {
    const auto entry = last->workloads.find({kNs, ProxyId(uuid), WorkloadKind::kMachine});
    return entry->telemetry ? entry->telemetry->str() : "";
  }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const Problem& problem : *last->problems)
      out.push_back(problem.object.str() + ' ' + problem.field + ' ' +
                    std::string(error_code_text(problem.code)));
    return out;
  }
};

Telemetry selecting(Labels labels) { return {.selector = std::move(labels)}; }
Telemetry text(const std::string& format) {
  return {.format = {AccessLogFormat::Kind::kText, format}};
}
Telemetry exporting(const ExtensionServiceName& server) {
  return {.open_telemetry = OpenTelemetryLog{server, {}}};
}

}  // namespace

TEST_SUITE("catalog.telemetry") {
  TEST_CASE_FIXTURE(Shop, "the most specific Telemetry is in effect, as objects come and go") {
    CHECK(of(kUuid).empty());
    put(kOsm, "mesh", text("mesh"));
    REQUIRE(next());
    CHECK(of(kUuid) == "osm-system/mesh");
    put(kNs, "all", text("all"));
    REQUIRE(next());
    CHECK(of(kUuid) == "shop/all");
    put(kNs, "web", selecting({{"app", "web"}}));
    REQUIRE(next());
    CHECK(of(kUuid) == "shop/web");
    CHECK(of(kOther) == "shop/all");
    spec.remove({kinds::kTelemetry, kNs, "web"});
    REQUIRE(next());
    CHECK(of(kUuid) == "shop/all");
    spec.remove({kinds::kTelemetry, kNs, "all"});
    REQUIRE(next());
    CHECK(of(kUuid) == "osm-system/mesh");
    spec.remove({kinds::kTelemetry, kOsm, "mesh"});
    REQUIRE(next());
    CHECK(of(kUuid).empty());
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Shop, "of equals the first by name counts, and the others are reported") {
    put(kNs, "b", selecting({{"app", "web"}}));
    put(kNs, "a", selecting({{"app", "web"}}));
    put(kNs, "y", {});
    put(kNs, "x", {});
    put(kNs, "other", selecting({{"app", "none"}}));
    REQUIRE(next());
    CHECK(of(kUuid) == "shop/a");
    CHECK(of(kOther) == "shop/x");
    CHECK(problems() ==
          std::vector<std::string>{"Telemetry shop/b spec.selector duplicate-object",
                                   "Telemetry shop/y spec.selector duplicate-object"});
    label("web", kUuid, {{"app", "new"}});
    REQUIRE(next());
    CHECK(of(kUuid) == "shop/x");
    CHECK(problems() ==
          std::vector<std::string>{"Telemetry shop/y spec.selector duplicate-object"});
  }

  TEST_CASE_FIXTURE(Shop,
                    "a selector in the control plane's namespace selects no other's workload") {
    put(kOsm, "web", selecting({{"app", "web"}}));
    REQUIRE(next());
    CHECK(of(kUuid).empty());
    CHECK(problems() ==
          std::vector<std::string>{"Telemetry osm-system/web spec.selector unused-field"});
  }

  TEST_CASE_FIXTURE(Shop, "labels that no selector sees change nothing") {
    put(kNs, "web", selecting({{"app", "web"}}));
    REQUIRE(next());
    label("web", kUuid, {{"app", "web"}, {"release", "7"}});
    CHECK_FALSE(next());
    for (const auto& entry : last->workloads) CHECK(entry->workload.labels.empty());
    label("web", kUuid, {{"app", "api"}});
    REQUIRE(next());
    CHECK(last->changes.workloads ==
          std::set<model::ProxyKey>{{kNs, ProxyId(kUuid), WorkloadKind::kMachine}});
    CHECK(last->changes.telemetries.empty());
  }

  TEST_CASE_FIXTURE(Shop, "a changed format concerns no workload's entry") {
    put(kNs, "all", text("one"));
    REQUIRE(next());
    const std::string before = last->hash;
    put(kNs, "all", text("two"));
    REQUIRE(next());
    CHECK(last->changes.workloads.empty());
    CHECK(last->changes.telemetries == std::set<TelemetryName>{{kNs, "all"}});
    CHECK_FALSE(last->changes.empty());
    CHECK(last->hash != before);
  }

  TEST_CASE_FIXTURE(Shop, "a collector is of the own namespace or the control plane's") {
    put_server(kNs, "own", "own.example");
    put_server(kOsm, "shared", "shared.example");
    put_server("else", "foreign", "foreign.example");
    const auto host = [&](const char* name) {
      const auto entry = last->telemetries.find({kNs, name});
      return entry->collector ? entry->collector->server.host : "";
    };
    put(kNs, "a", exporting({kNs, "own"}));
    put(kNs, "b", exporting({kOsm, "shared"}));
    put(kNs, "c", exporting({"else", "foreign"}));
    put(kNs, "d", exporting({kNs, "absent"}));
    REQUIRE(next());
    CHECK(host("a") == "own.example");
    CHECK(host("b") == "shared.example");
    CHECK(host("c").empty());
    CHECK(host("d").empty());
    const std::string field = " spec.accessLog.openTelemetry.extensionService.";
    const auto found = problems();
    const auto has = [&](const std::string& text) {
      return std::find(found.begin(), found.end(), text) != found.end();
    };
    CHECK(has("Telemetry shop/c" + field + "namespace cross-namespace"));
    CHECK(has("Telemetry shop/d" + field + "name dangling-reference"));

    put_server(kNs, "own", "moved.example");
    REQUIRE(next());
    CHECK(host("a") == "moved.example");
    CHECK(last->changes.telemetries == std::set<TelemetryName>{{kNs, "a"}});
    spec.remove({kinds::kExtensionService, kNs, "own"});
    REQUIRE(next());
    CHECK(host("a").empty());
  }

  TEST_CASE_FIXTURE(Shop, "the objects concern the workloads that they are in effect for") {
    put_server(kNs, "own", "own.example");
    Telemetry web = exporting({kNs, "own"});
    web.selector = {{"app", "web"}};
    put(kNs, "web", web);
    put(kNs, "shadowed", web);
    REQUIRE(next());
    const auto workloads = [&](const GroupKind& kind, const char* name) {
      return names_in<WorkloadName>(model::entries_of({kind, kNs, name}, *last));
    };
    CHECK(workloads(kinds::kTelemetry, "shadowed") == std::set<WorkloadName>{{kNs, "web"}});
    CHECK(workloads(kinds::kTelemetry, "web").empty());
    CHECK(workloads(kinds::kExtensionService, "own") == std::set<WorkloadName>{{kNs, "web"}});
  }
}
