// An embedder's kind needs a row and a decoder: it is stored, checked, listed and has receipts.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <vector>

#include "embedding/host.hpp"
#include "osm/inject/validator.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/values/object_status.hpp"

using namespace osm;
using namespace osm::embedding_test;
using namespace std::chrono_literals;
using osm::testing::MemoryObjectStore;

namespace {

namespace json = boost::json;

// The vendor's kind: a text for the proxies of one account.
constexpr GroupKind kGreeting{"vendor.example", "Greeting"};

struct Greeting {
  std::string text;
  friend bool operator==(const Greeting&, const Greeting&) = default;
};

spec::DecodedPolicy decode_greeting(const Object& object, const std::string& /*cluster_domain*/) {
  const json::value* text = object.document->as_object().at("spec").as_object().if_contains("text");
  if (text == nullptr)
    return {nullptr, {{ErrorCode::kInvalidField, object.key, "", 0, "spec.text", "required"}}};
  const std::vector<ServiceIdentity> concerned{{object.key.ns, "web"}};
  return {std::make_shared<const Policy>(object.key, Greeting{json::value_to<std::string>(*text)},
                                         concerned),
          {}};
}

spec::Kinds vendor_kinds() {
  spec::Kinds kinds = spec::mesh_kinds();
  kinds.push_back({.name = kGreeting,
                   .version = "v1",
                   .plural = "greetings",
                   .alias = "gr",
                   .status = true,
                   .review = spec::Review::kWrites,
                   .decode = decode_greeting});
  return kinds;
}

constexpr const char* kNamespace = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
)";

std::string greeting(const std::string& spec) {
  return "apiVersion: vendor.example/v1\nkind: Greeting\nmetadata: {name: hello, namespace: shop}\n"
         "spec: " +
         spec + '\n';
}

const ObjectKey kHello{kGreeting, "shop", "hello"};

struct Mesh {
  Mesh() {
    REQUIRE(store.put_yaml(kNamespace + greeting("{text: hi}")).ok());
    Workload machine;
    machine.name = {"shop", "web-1"};
    machine.account = {"shop", "web"};
    machine.proxy_id = ProxyId("11111111-1111-4111-8111-111111111111");
    machines.put_workload(machine);
  }

  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  MemoryObjectStore store{vendor_kinds()};
  std::unique_ptr<MeshSpec> spec = spec::make_mesh_spec(
      {.store = store, .log = log, .metrics = metrics, .kinds = vendor_kinds()});
  osm::testing::MemoryEndpointsProvider machines{"machines"};
};

}  // namespace

TEST_SUITE("an embedder's kind") {
  TEST_CASE("its objects are read, decoded and listed") {
    Mesh mesh;
    REQUIRE(mesh.spec->list_policies().size() == 1);
    const auto policy = mesh.spec->list_policies().front();
    CHECK(policy->key == kHello);
    REQUIRE(policy->get<Greeting>() != nullptr);
    CHECK(policy->get<Greeting>()->text == "hi");
    CHECK(policy->get<std::string>() == nullptr);
    std::vector<ObjectKey> changed;
    const auto told =
        mesh.spec->subscribe([&](const SpecChange& change) { changed = change.keys; });
    REQUIRE(mesh.store.put_yaml(greeting("{text: hello}")).ok());
    CHECK(changed == std::vector<ObjectKey>{kHello});
    CHECK(mesh.spec->list_policies().front()->get<Greeting>()->text == "hello");
  }

  TEST_CASE("an invalid object is left out and reported with its field") {
    Mesh mesh;
    REQUIRE(mesh.store.put_yaml(greeting("{}")).ok());
    CHECK(mesh.spec->list_policies().empty());
    REQUIRE(mesh.spec->list_problems().size() == 1);
    CHECK(mesh.spec->list_problems().front().text() ==
          "memory.yaml:4: Greeting.vendor.example shop/hello: spec.text: required [invalid-field]");
  }

  TEST_CASE("the mesh without its row refuses it") {
    MemoryObjectStore store;
    const auto refused = store.put_yaml(greeting("{text: hi}"));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUnknownKind);
  }

  TEST_CASE("the webhook refuses what its decoder refuses") {
    Mesh mesh;
    const auto validator = inject::make_validator(
        {.mesh_spec = *mesh.spec, .metrics = mesh.metrics, .kinds = vendor_kinds()});
    const auto review = [&](const json::object& spec) {
      const json::object request{
          {"uid", "u"},
          {"kind", {{"group", "vendor.example"}, {"version", "v1"}, {"kind", "Greeting"}}},
          {"namespace", "shop"},
          {"name", "hello"},
          {"operation", "CREATE"},
          {"object",
           {{"apiVersion", "vendor.example/v1"},
            {"kind", "Greeting"},
            {"metadata", {{"name", "hello"}, {"namespace", "shop"}}},
            {"spec", spec}}}};
      const auto answer =
          validator->review(json::serialize(json::object{{"apiVersion", "admission.k8s.io/v1"},
                                                         {"kind", "AdmissionReview"},
                                                         {"request", request}}));
      return json::parse(answer.body).at("response");
    };
    CHECK(review({{"text", "hi"}}).at("allowed") == true);
    const json::value refused = review({});
    CHECK(refused.at("allowed") == false);
    CHECK(refused.at("status").at("details").at("causes").at(0).at("field") == "spec.text");
  }

  TEST_CASE("its receipts name the proxies that it reaches") {
    Mesh mesh;
    osm::testing::ThreadExecutor executor(2);
    SystemClock clock;
    RandomRng rng;
    TemporaryDirectory directory;
    auto ca = certificate::load_or_create_directory_ca(
        {directory.file("ca"), TrustDomain("cluster.local"), clock});
    const Runtime runtime{executor, executor, clock, rng, mesh.log, mesh.metrics};
    const auto certificates = certificate::make_manager({std::move(ca).value(), runtime});
    const auto control_plane = ControlPlane::start({.spec = *mesh.spec,
                                                    .providers = {{&mesh.machines}},
                                                    .workload_providers = {&mesh.machines},
                                                    .certificates = *certificates,
                                                    .runtime = runtime,
                                                    .ads_address = ""})
                                   .value();
    REQUIRE(osm::testing::wait_until([&] { return control_plane->object_status(kHello).ok(); }));
    const auto status = control_plane->wait_until_applied(kHello, 10s).value();
    CHECK(status.not_connected == std::vector<WorkloadName>{{"shop", "web-1"}});
    mesh.store.remove(kHello);
    REQUIRE(osm::testing::wait_until([&] {
      const auto now = control_plane->object_status(kHello);
      return now.ok() && now->removed;
    }));
  }

  TEST_CASE("kinds of one name in two groups are two kinds") {
    constexpr GroupKind kGatewayRoute{"gateway.networking.k8s.io", "TCPRoute"};
    spec::Kinds kinds = vendor_kinds();
    kinds.push_back({.name = kGatewayRoute, .version = "v1alpha2", .plural = "tcproutes"});
    MemoryObjectStore store(kinds);
    for (const char* api : {"gateway.networking.k8s.io/v1alpha2", "specs.smi-spec.io/v1alpha4"})
      REQUIRE(store
                  .put_yaml("apiVersion: " + std::string(api) +
                            "\nkind: TCPRoute\nmetadata: {name: db, namespace: shop}\nspec: {}\n")
                  .ok());
    REQUIRE(store.list(kGatewayRoute).size() == 1);
    REQUIRE(store.list(kinds::kTcpRoute).size() == 1);
    CHECK(store.list(kGatewayRoute)[0]->key.str() == "TCPRoute.gateway.networking.k8s.io shop/db");
    CHECK(store.list(kinds::kTcpRoute)[0]->key.str() == "TCPRoute shop/db");
  }
}
