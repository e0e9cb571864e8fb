// Instances are endpoints and workloads; without a resolver objects are reported.
#include <doctest/doctest.h>

#include "osm/spec/azure_resources.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/memory_resource_resolver.hpp"

using namespace osm;

namespace {

const std::string kSet =
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/web";

struct Fixture {
  Fixture() {
    mesh.put_namespace("shop");
    mesh.put(Service{{"shop", "api"},
                     "10.96.0.1",
                     false,
                     {{"app", "api"}},
                     {{"", Port{80}, Port{8080}, Protocol::kHttp}}});
    const auto status = store.put_yaml(
        "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: AzureResource\n"
        "metadata: {name: web, namespace: shop, labels: {app: api}}\n"
        "spec: {resourceID: /resource" +
            kSet + ", serviceAccount: account}\n",
        "mesh/azure.yaml");
    REQUIRE(status.ok());
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec mesh;
  osm::testing::MemoryResourceResolver resolver{"azure"};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
};

}  // namespace

TEST_SUITE("azure::AzureProvider") {
  TEST_CASE_FIXTURE(Fixture, "instances of a scale set are endpoints and workloads") {
    const auto provider = azure::make_azure_provider(
        {&resolver, store, mesh, TrustDomain("cluster.local"), log, metrics});
    CHECK(provider->id() == "azure");
    CHECK(resolver.followed() == std::set<std::string>{kSet});
    resolver.set(kSet, Resolution{.instances = {{.name = "0", .address = "10.0.0.1"},
                                                {.name = "7", .address = "10.0.0.2", .zone = "2"}},
                                  .scales = true});
    const auto endpoints = provider->list_endpoints_for_service({"shop", "api"});
    REQUIRE(endpoints);
    REQUIRE(endpoints->size() == 2);
    CHECK((*endpoints)[1] ==
          Endpoint{"10.0.0.2", Port{8080}, "", {"shop", "account"}, "2", {}, true});
    const auto workloads = provider->list_workloads();
    REQUIRE(workloads.size() == 2);
    CHECK(workloads[0].name == WorkloadName{"shop", "web-0"});
    CHECK(workloads[1].name == WorkloadName{"shop", "web-7"});
  }

  TEST_CASE_FIXTURE(Fixture, "without a resolver each object is reported, and nothing waits") {
    const auto provider = azure::make_azure_provider(
        {nullptr, store, mesh, TrustDomain("cluster.local"), log, metrics});
    CHECK(provider->has_synced());
    CHECK(provider->healthy());
    CHECK(provider->list_endpoints_for_service({"shop", "api"})->empty());
    const auto problems = provider->list_problems();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].text().find("start it with --azure-config [unused-field]") !=
          std::string::npos);
  }
}
