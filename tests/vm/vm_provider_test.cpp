// VirtualMachines become endpoints of the Services that select them.
#include "osm/spec/vm_provider.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "model/names.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;

namespace {

using Services = std::vector<ServiceName>;
using Workloads = std::vector<WorkloadName>;

const TrustDomain kDomain("cluster.local");
constexpr const char* kUuid = "6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a";

std::string vm_yaml(const std::string& name, const std::string& address,
                    const std::string& labels = "app: books", const std::string& more = "",
                    const std::string& ns = "shop") {
  return "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
         "metadata: {name: " +
         name + ", namespace: " + ns + ", labels: {" + labels + "}}\nspec:\n  address: " + address +
         "\n  serviceAccount: account\n" + more;
}

Service service(const std::string& name, std::map<std::string, std::string> selector,
                std::vector<ServicePort> ports = {{"", Port{80}, Port{14001}, Protocol::kHttp}}) {
  return {{"shop", name}, "10.96.0.1", false, std::move(selector), std::move(ports)};
}

struct Fixture {
  Fixture() { mesh.put_namespace("shop"); }

  void start() {
    provider = vm::make_vm_provider({store, mesh, kDomain, log, metrics});
    services_subscription =
        provider->subscribe([this](const Services& names) { services.push_back(names); });
    workloads_subscription = provider->subscribe_workloads(
        [this](const Workloads& names) { workloads.push_back(names); });
  }
  void put(const std::string& yaml) {
    const auto status = store.put_yaml(yaml, "mesh/vm.yaml");
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
  }
  void remove(const std::string& name) { store.remove({kinds::kVirtualMachine, "shop", name}); }
  // "address:port/service_port", ordered.
  std::vector<std::string> endpoints(const std::string& name) const {
    std::vector<std::string> out;
    const auto list = provider->list_endpoints_for_service({"shop", name});
    REQUIRE(list.has_value());
    for (const auto& endpoint : *list)
      out.push_back(endpoint.address + ':' + std::to_string(number(endpoint.port)) + '/' +
                    endpoint.service_port);
    std::sort(out.begin(), out.end());
    return out;
  }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const auto& problem : provider->list_problems()) out.push_back(problem.text());
    return out;
  }
  std::vector<std::string> served() const {
    std::vector<std::string> out;
    for (const auto& workload : provider->list_workloads()) out.push_back(workload.name.str());
    return out;
  }
  double recomputed() const { return metrics.sum("osm_vm_services_recomputed_total"); }
  void forget() {
    services.clear();
    workloads.clear();
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec mesh;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<vm::VmProvider> provider;
  Subscription services_subscription;
  Subscription workloads_subscription;
  std::vector<Services> services;
  std::vector<Workloads> workloads;
};

}  // namespace

TEST_SUITE("vm::VmProvider") {
  TEST_CASE_FIXTURE(Fixture, "a Service's endpoints are its machines with their accounts") {
    mesh.put(service("books", {{"app", "books"}, {"v", "1"}}));
    put(vm_yaml("one", "10.0.0.1", "app: books, v: \"1\", extra: x"));
    put(vm_yaml("two", "10.0.0.2", "app: books, v: \"2\""));
    put(vm_yaml("three", "10.0.0.3", "v: \"1\""));
    start();
    CHECK(provider->id() == "vm");
    CHECK(provider->has_synced());
    CHECK(provider->healthy());
    const auto list = provider->list_endpoints_for_service({"shop", "books"});
    REQUIRE(list);
    REQUIRE(list->size() == 1);
    CHECK(list->front() ==
          Endpoint{"10.0.0.1", Port{14001}, "", {"shop", "account"}, {}, {}, true});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "unknown and selectorless Services are not its business") {
    mesh.put(service("none", {}));
    mesh.put(service("nobody", {{"app", "x"}}));
    put(vm_yaml("one", "10.0.0.1"));
    start();
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "unknown"}));
    CHECK_FALSE(provider->list_endpoints_for_service({"other", "none"}));
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "none"}));
    CHECK(endpoints("nobody").empty());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "named target ports come from the machine, and a missing one is told") {
    mesh.put(service("books", {{"app", "books"}},
                     {{"http", Port{80}, std::string("web"), Protocol::kHttp},
                      {"tcp", Port{90}, Port{9000}, Protocol::kTcp}}));
    put(vm_yaml("one", "10.0.0.1", "app: books", "  ports: [{name: web, port: 8080}]\n"));
    put(vm_yaml("two", "10.0.0.2"));
    start();
    CHECK(endpoints("books") ==
          std::vector<std::string>{"10.0.0.1:8080/http", "10.0.0.1:9000/tcp", "10.0.0.2:9000/tcp"});
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0] ==
          "mesh/vm.yaml:4: VirtualMachine shop/two: spec.ports: Service shop/books sends port 80 "
          "to the port named \"web\", which is not here; add {name: web, port: ...} "
          "[dangling-reference]");
    workloads.clear();
    put(vm_yaml("two", "10.0.0.2", "app: books", "  ports: [{name: web, port: 8081}]\n"));
    CHECK(problems().empty());
    CHECK(endpoints("books").size() == 4);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a workload names its account, ports and the Services that select it") {
    mesh.put(service("web", {{"app", "books"}}));
    mesh.put(service("all", {{"app", "books"}}));
    mesh.put(service("other", {{"app", "x"}}));
    put(vm_yaml("one", "10.0.0.1", "app: books",
                std::string("  proxyUUID: ") + kUuid + "\n  ports: [{name: web, port: 8080}]\n"));
    put(vm_yaml("two", "10.0.0.2", "app: none"));
    start();
    const auto list = provider->list_workloads();
    REQUIRE(list.size() == 2);
    CHECK(list[0] == Workload{{"shop", "one"},
                              ProxyId(kUuid),
                              {"shop", "account"},
                              "10.0.0.1",
                              {{"web", Port{8080}}},
                              {{"shop", "all"}, {"shop", "web"}},
                              WorkloadKind::kMachine,
                              {{"app", "books"}},
                              {kinds::kVirtualMachine, "shop", "one"}});
    CHECK(list[1].proxy_id == model::derived_proxy_id(kDomain, {"shop", "two"}));
    CHECK(list[1].services.empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a machine that changes touches only the Services it concerns") {
    for (int i = 0; i < 20; ++i) {
      const std::string name = "s" + std::to_string(i);
      mesh.put(service(name, {{"app", name}}));
      put(vm_yaml("vm" + std::to_string(i), "10.0.0." + std::to_string(i), "app: " + name));
    }
    start();
    forget();
    const double before = recomputed();
    put(vm_yaml("vm3", "10.0.1.3", "app: s3"));
    CHECK(recomputed() == before + 1);
    CHECK(services == std::vector<Services>{{{"shop", "s3"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "vm3"}}});
    CHECK(endpoints("s3") == std::vector<std::string>{"10.0.1.3:14001/"});
    forget();
    put(vm_yaml("vm3", "10.0.1.3", "app: s4"));  // moves from one Service to another
    CHECK(recomputed() == before + 3);
    CHECK(services == std::vector<Services>{{{"shop", "s3"}, {"shop", "s4"}}});
    CHECK(endpoints("s3").empty());
    CHECK(endpoints("s4").size() == 2);
    forget();
    remove("vm3");
    CHECK(services == std::vector<Services>{{{"shop", "s4"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "vm3"}}});
    CHECK(provider->list_workloads().size() == 19);
  }

  TEST_CASE_FIXTURE(Fixture, "a Service that changes touches itself and the machines it selects") {
    mesh.put(service("a", {{"app", "a"}}));
    mesh.put(service("b", {{"app", "b"}}));
    put(vm_yaml("one", "10.0.0.1", "app: a"));
    put(vm_yaml("two", "10.0.0.2", "app: b"));
    start();
    forget();
    mesh.put(service("a", {{"app", "b"}}));
    CHECK(endpoints("a") == std::vector<std::string>{"10.0.0.2:14001/"});
    CHECK(services == std::vector<Services>{{{"shop", "a"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "one"}, {"shop", "two"}}});
    forget();
    mesh.remove({kinds::kService, "shop", "a"});
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "a"}));
    CHECK(services == std::vector<Services>{{{"shop", "a"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "two"}}});
    forget();
    Service b = service("b", {{"app", "b"}});
    b.cluster_ip = "10.96.0.9";  // nothing an endpoint depends on
    mesh.put(b);
    CHECK(services.empty());
    CHECK(workloads.empty());
  }

  TEST_CASE_FIXTURE(Fixture, "of machines with one proxy UUID the first by name keeps it") {
    const std::string uuid = std::string("  proxyUUID: ") + kUuid + "\n";
    mesh.put(service("books", {{"app", "books"}}));
    put(vm_yaml("b", "10.0.0.2", "app: books", uuid));
    start();
    CHECK(served() == std::vector<std::string>{"shop/b"});
    put(vm_yaml("c", "10.0.0.3", "app: books", uuid));
    CHECK(served() == std::vector<std::string>{"shop/b"});
    CHECK(endpoints("books").size() == 1);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("VirtualMachine shop/c: spec.proxyUUID: VirtualMachine shop/b already "
                             "has this proxy UUID") != std::string::npos);
    CHECK(problems()[0].ends_with("[duplicate-object]"));
    remove("b");
    CHECK(served() == std::vector<std::string>{"shop/c"});
    CHECK(problems().empty());
    mesh.put_namespace("other");
    put(vm_yaml("a", "10.0.0.9", "app: books", uuid, "other"));  // another namespace may have it
    CHECK(served() == std::vector<std::string>{"other/a", "shop/c"});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "two machines at one address are reported") {
    put(vm_yaml("a", "10.0.0.1"));
    put(vm_yaml("b", "10.0.0.1"));
    start();
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("VirtualMachine shop/b: spec.address: 10.0.0.1 is also the address of "
                             "VirtualMachine shop/a") != std::string::npos);
    CHECK(provider->list_workloads().size() == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "machines count in the mesh's namespaces only, from when they enter") {
    mesh.put(service("books", {{"app", "books"}}));
    mesh.remove({kinds::kNamespace, "", "shop"});
    put(vm_yaml("one", "10.0.0.1"));
    start();
    CHECK(provider->list_workloads().empty());
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "books"}));
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("metadata.namespace: namespace shop is not in the mesh") !=
          std::string::npos);
    forget();
    mesh.put_namespace("shop");
    CHECK(endpoints("books").size() == 1);
    CHECK(services == std::vector<Services>{{{"shop", "books"}}});
    CHECK(problems().empty());
    forget();
    mesh.remove({kinds::kNamespace, "", "shop"});
    CHECK(provider->list_workloads().empty());
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "books"}));
    CHECK(services == std::vector<Services>{{{"shop", "books"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "one"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "syncs when store and MeshSpec did, and tells once") {
    store.set_synced(false);
    mesh.set_synced(false);
    start();
    CHECK_FALSE(provider->has_synced());
    store.set_synced(true);
    CHECK_FALSE(provider->has_synced());
    CHECK(services.empty());
    mesh.set_synced(true);
    CHECK(provider->has_synced());
    CHECK(services == std::vector<Services>{{}});
  }

  TEST_CASE_FIXTURE(Fixture, "an unreadable source turns it unhealthy and keeps what it had") {
    mesh.put(service("books", {{"app", "books"}}));
    put(vm_yaml("one", "10.0.0.1"));
    start();
    forget();
    store.set_problems({{ErrorCode::kUnreadableSource, {}, "mesh", 0, "", "gone"}});
    CHECK_FALSE(provider->healthy());
    CHECK(endpoints("books").size() == 1);
    CHECK(services == std::vector<Services>{{}});
    store.set_problems({});
    CHECK(provider->healthy());
    store.set_problems({{ErrorCode::kUnavailable, {}, "https://api", 0, "", "no answer"}});
    CHECK_FALSE(provider->healthy());
  }

  TEST_CASE_FIXTURE(Fixture, "a bad VirtualMachine is left out, with field and line") {
    struct Row {
      const char* spec;
      const char* problem;
    };
    const Row rows[] = {
        {"address: 10.0.0.1", ":4: VirtualMachine shop/vm: spec.serviceAccount: required"},
        {"serviceAccount: a", ":4: VirtualMachine shop/vm: spec.address: required"},
        {"serviceAccount: a\n  address: fd00::1", ":6: VirtualMachine shop/vm: spec.address: IPv6"},
        {"serviceAccount: a\n  address: host.example", "spec.address: must be an IPv4 address"},
        {"serviceAccount: a\n  address: 0.0.0.0",
         ":6: VirtualMachine shop/vm: spec.address: must be an address that one host has"},
        {"serviceAccount: a\n  address: 127.0.0.1", "give the one that other machines reach it at"},
        {"serviceAccount: a\n  address: 239.1.2.3", "spec.address: must be an address that one"},
        {"serviceAccount: a\n  address: 255.255.255.255", "spec.address: must be an address that"},
        {"serviceAccount: a\n  address: 7", "spec.address: must be a string"},
        {"serviceAccount: a\n  address: \"10.0.0.1\\0\"", "spec.address: must be an IPv4 address"},
        {"serviceAccount: a.b\n  address: 10.0.0.1", "spec.serviceAccount: must be a DNS label"},
        {"serviceAccount: a\n  address: 10.0.0.1\n  proxyUUID: ABC",
         ":7: VirtualMachine shop/vm: "
         "spec.proxyUUID: must be a UUID"},
        {"serviceAccount: a\n  address: 10.0.0.1\n  ports: [{name: a}]",
         "spec.ports[0].port: required"},
        {"serviceAccount: a\n  address: 10.0.0.1\n  ports: [{name: a, port: 0}]",
         "spec.ports[0].port: must be a whole number"},
        {"serviceAccount: a\n  address: 10.0.0.1\n  ports:\n  - {name: a, port: 1}\n"
         "  - {name: a, port: 2}",
         ":9: VirtualMachine shop/vm: spec.ports[1].name: two ports have this name"},
        {"serviceAccount: a\n  address: 10.0.0.1\n  port: 7", "spec.port: no such field"},
    };
    start();
    for (const Row& row : rows) {
      CAPTURE(row.spec);
      put(std::string("apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
                      "metadata: {name: vm, namespace: shop}\nspec:\n  ") +
          row.spec + "\n");
      CHECK(provider->list_workloads().empty());
      REQUIRE(problems().size() == 1);
      CHECK_MESSAGE(problems()[0].find(row.problem) != std::string::npos, problems()[0]);
      CHECK(problems()[0].ends_with("[invalid-field]"));
    }
    put(vm_yaml("vm", "10.0.0.1"));
    CHECK(provider->list_workloads().size() == 1);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a machine asks for names by its annotation, and by no label") {
    const auto machine = [](const std::string& metadata) {
      return "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
             "metadata:\n  name: vm\n  namespace: shop\n  " +
             metadata + "\nspec: {address: 10.0.0.1, serviceAccount: a}\n";
    };
    const auto asks = [&] {
      REQUIRE(provider->list_workloads().size() == 1);
      return provider->list_workloads()[0].labels.contains("openservicemesh.io/dns");
    };
    start();
    put(machine("annotations: {openservicemesh.io/dns: enabled}"));
    CHECK(asks());
    CHECK(problems().empty());
    put(machine("labels: {openservicemesh.io/dns: enabled}"));
    CHECK_FALSE(asks());
    put(machine("annotations: {openservicemesh.io/dns: 'yes'}"));
    CHECK_FALSE(asks());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("metadata.annotations[openservicemesh.io/dns]: must be enabled") !=
          std::string::npos);
    CHECK(problems()[0].ends_with("[invalid-field]"));
  }

  TEST_CASE_FIXTURE(Fixture, "machines behind a source Service are followed outside of the mesh") {
    const ServiceName gateway{"edge", "gateway"};
    const auto addresses = [&] { return provider->list_source_addresses(gateway); };
    put("apiVersion: v1\nkind: Service\nmetadata: {name: gateway, namespace: edge}\n"
        "spec: {clusterIP: 10.97.0.1, selector: {app: gateway}, ports: [{port: 80}]}\n");
    put(vm_yaml("one", "192.0.2.1", "app: gateway", "", "edge"));
    put(vm_yaml("two", "192.0.2.2", "app: other", "", "edge"));
    start();
    CHECK(addresses().empty());  // no IngressBackend names it
    CHECK(provider->list_problems().size() == 2);
    services.clear();
    IngressBackend policy;
    policy.services = {{gateway, 0}};
    mesh.put(Policy({kinds::kIngressBackend, "shop", "in"}, policy));
    CHECK(addresses() == std::vector<std::string>{"192.0.2.1"});
    CHECK(services == std::vector<Services>{{gateway}});
    CHECK(provider->list_problems().empty());  // its namespace has a part in the mesh
    CHECK_FALSE(provider->list_endpoints_for_service(gateway));
    CHECK(provider->list_workloads().empty());

    services.clear();
    put(vm_yaml("two", "192.0.2.2", "app: gateway", "", "edge"));
    CHECK(addresses() == std::vector<std::string>{"192.0.2.1", "192.0.2.2"});
    store.remove({kinds::kVirtualMachine, "edge", "one"});
    CHECK(addresses() == std::vector<std::string>{"192.0.2.2"});
    store.remove({kinds::kService, "edge", "gateway"});
    CHECK(addresses().empty());
    CHECK(services == std::vector<Services>{{gateway}, {gateway}, {gateway}});
    mesh.remove({kinds::kIngressBackend, "shop", "in"});
    CHECK(provider->list_problems().size() == 1);
  }
}
