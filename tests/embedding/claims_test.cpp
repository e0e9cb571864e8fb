// A thing that one object has is told with one sentence: by the webhook that refuses a second
// object, and by the mesh that finds one.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "inject/reviews.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;

namespace {

constexpr const char* kSettings = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: config.openservicemesh.io/v1alpha2
kind: MeshConfig
metadata: {name: osm-mesh-config, namespace: osm-system}
spec: {featureFlags: {enableRetryPolicy: true}}
)";

struct ClaimedMesh {
  ClaimedMesh() { REQUIRE(store.put_yaml(kSettings).ok()); }

  void put(const inject::Written& written) {
    const Status stored = store.put_yaml(boost::json::serialize(written.object()));
    REQUIRE_MESSAGE(stored.ok(), (stored.ok() ? "" : stored.error().text()));
  }
  // The causes of the duplicates that the specification and the catalog find.
  std::vector<std::string> duplicates() const {
    std::vector<std::string> out;
    catalog::MeshBuilder builder(*spec, {}, {}, TrustDomain("cluster.local"));
    std::vector<Problem> problems = spec->list_problems();
    const auto mesh = builder.build();
    REQUIRE(mesh);
    problems.insert(problems.end(), mesh->problems->begin(), mesh->problems->end());
    for (const Problem& problem : problems)
      if (problem.code == ErrorCode::kDuplicateObject) out.push_back(problem.cause);
    return out;
  }

  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::MemoryObjectStore store;
  std::unique_ptr<MeshSpec> spec =
      spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  std::unique_ptr<inject::Validator> validator =
      inject::make_validator({.mesh_spec = *spec, .metrics = metrics, .store = &store});
};

}  // namespace

TEST_SUITE("claims") {
  TEST_CASE("the webhook and the mesh say the same of a second object with a claim") {
    constexpr const char* kPolicyApi = "policy.openservicemesh.io/v1alpha1";
    struct Row {
      const char* api;
      const char* kind;
      const char* spec;
      const char* claim;
      bool refused = true;
    };
    for (const Row& row : std::vector<Row>{
             {inject::kSplitApi, "TrafficSplit",
              R"({"service": "api", "backends": [{"service": "api", "weight": 1}]})",
              "splits Service shop/api"},
             {kPolicyApi, "UpstreamTrafficSetting", R"({"host": "api.shop.svc"})",
              "limits Service shop/api"},
             {kPolicyApi, "IngressBackend",
              R"({"backends": [{"name": "api", "port": {"number": 8080, "protocol": "http"}}],
                  "sources": [{"kind": "IPRange", "name": "10.0.0.0/8"}]})",
              "has backend api port 8080"},
             {inject::kWorkloadApi, "ServiceProvider",
              R"({"service": "api", "providers": [{"name": "vm"}]})",
              "orders the providers of Service shop/api"},
             {kPolicyApi, "Retry",
              R"({"source": {"kind": "ServiceAccount", "name": "web", "namespace": "shop"},
                  "destinations": [{"kind": "Service", "name": "api", "namespace": "shop"}],
                  "retryPolicy": {"retryOn": "5xx", "numRetries": 1, "perTryTimeout": "1s",
                                  "retryBackoffBaseInterval": "25ms"}})",
              "says how shop/web repeats its requests to Service shop/api", false}}) {
      CAPTURE(row.kind);
      const std::string sentence = std::string(row.kind) + " shop/first already " + row.claim +
                                   " and is used; merge the two";
      ClaimedMesh mesh;
      mesh.put({row.api, row.kind, row.spec, "first"});
      CHECK(mesh.duplicates().empty());
      const inject::Written second{row.api, row.kind, row.spec, "second"};
      const inject::Verdict verdict =
          inject::verdict_of(mesh.validator->review(inject::review_of(second, "CREATE")));
      CHECK(verdict.allowed != row.refused);
      if (row.refused)
        CHECK_MESSAGE(verdict.message.find(": " + sentence + " [") != std::string::npos,
                      verdict.message);
      mesh.put(second);
      CHECK(mesh.duplicates() == std::vector{sentence});
    }
  }
}
