// A change decodes one object, invalid objects are left out, and MeshConfig and namespaces are
// followed.
#include "osm/spec/object_mesh_spec.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "model/links.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using osm::testing::MemoryObjectStore;

namespace {

using Keys = std::vector<ObjectKey>;

constexpr const char* kShop = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
)";

std::string service_yaml(const std::string& name, const std::string& address,
                         const std::string& ns = "shop") {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: " + ns +
         "}\nspec: {clusterIP: " + address + ", selector: {app: " + name + "}}\n";
}

std::string target_yaml(const std::string& name, const std::string& route = "routes",
                        const std::string& match = "buy") {
  return "apiVersion: access.smi-spec.io/v1alpha3\nkind: TrafficTarget\nmetadata: {name: " + name +
         ", namespace: shop}\nspec:\n"
         "  destination: {kind: ServiceAccount, name: books, namespace: shop}\n"
         "  sources: [{kind: ServiceAccount, name: buyer, namespace: other}]\n"
         "  rules:\n"
         "  - {kind: HTTPRouteGroup, name: " +
         route + ", matches: [" + match + "]}\n";
}

std::string routes_yaml(const std::string& regex = "/buy") {
  return "apiVersion: specs.smi-spec.io/v1alpha4\nkind: HTTPRouteGroup\n"
         "metadata: {name: routes, namespace: shop}\nspec: {matches: [{name: buy, pathRegex: '" +
         regex + "'}]}\n";
}

std::string split_yaml(const std::string& name, const std::string& backend = "v1") {
  return "apiVersion: split.smi-spec.io/v1alpha2\nkind: TrafficSplit\nmetadata: {name: " + name +
         ", namespace: shop}\nspec: {service: books, backends: [{service: " + backend +
         ", weight: 1}]}\n";
}

std::string config_yaml(const std::string& permissive,
                        const std::string& name = "osm-mesh-config") {
  return "apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshConfig\nmetadata: {name: " +
         name +
         ", namespace: osm-system}\nspec:\n  traffic:\n"
         "    enablePermissiveTrafficPolicyMode: " +
         permissive + "\n";
}

std::string root_yaml(const std::string& name, const std::string& role,
                      const std::string& ns = "osm-system") {
  return "apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshRootCertificate\n"
         "metadata: {name: " +
         name + ", namespace: " + ns + "}\nspec:\n  role: " + role +
         "\n  provider: {tresor: {ca: {secretRef: {name: ca, namespace: osm-system}}}}\n";
}

struct Fixture {
  Fixture() { put(kShop); }

  void start() {
    spec = spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
    subscription =
        spec->subscribe([this](const SpecChange& change) { notified.push_back(change.keys); });
  }
  void put(const std::string& yaml) {
    const auto status = store.put_yaml(yaml, "mesh/a.yaml");
    REQUIRE_MESSAGE(status.ok(), (status.ok() ? "" : status.error().text()));
  }
  std::vector<std::vector<ObjectKey>> take() { return std::exchange(notified, {}); }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const auto& problem : spec->list_problems()) out.push_back(problem.text());
    return out;
  }
  double decoded() const { return metrics.sum("osm_spec_decoded_total"); }

  MemoryObjectStore store;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<MeshSpec> spec;
  Subscription subscription;
  std::vector<Keys> notified;
};

const ObjectKey kBooks{kinds::kService, "shop", "books"};
const ObjectKey kTarget{kinds::kTrafficTarget, "shop", "buyer"};
const ObjectKey kRoutes{kinds::kHttpRouteGroup, "shop", "routes"};
const ObjectKey kConfig{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};

}  // namespace

TEST_SUITE("spec::MeshSpec") {
  TEST_CASE_FIXTURE(Fixture, "lists what the store had at the start and what it gets later") {
    put(service_yaml("books", "10.0.0.1"));
    put(routes_yaml());
    start();
    put(target_yaml("buyer"));
    put("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: books, namespace: shop}\n");
    put("apiVersion: specs.smi-spec.io/v1alpha4\nkind: TCPRoute\n"
        "metadata: {name: tcp, namespace: shop}\n");
    CHECK(spec->has_synced());
    CHECK(spec->list_services().size() == 1);
    CHECK(spec->get_service({"shop", "books"})->cluster_ip == "10.0.0.1");
    CHECK(spec->get_service({"shop", "nobody"}) == nullptr);
    CHECK(spec->list_http_traffic_specs().size() == 1);
    CHECK(spec->list_tcp_traffic_specs().size() == 1);
    CHECK(spec->list_traffic_targets().size() == 1);
    CHECK(spec->list_namespaces() == std::vector<std::string>{"shop"});
    CHECK(spec->list_all_service_accounts() == std::vector<ServiceAccount>{{"shop", "books"}});
    CHECK(spec->list_service_accounts() ==
          std::vector<ServiceAccount>{{"other", "buyer"}, {"shop", "books"}});
    CHECK(problems().empty());
    CHECK(take() == std::vector<Keys>{{kTarget},
                                      {{kinds::kServiceAccount, "shop", "books"}},
                                      {{kinds::kTcpRoute, "shop", "tcp"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "a change decodes one object, and the others keep their pointers") {
    for (int i = 0; i < 50; ++i)
      put(service_yaml("s" + std::to_string(i), "10.0.0." + std::to_string(i)));
    start();
    const double at_start = decoded();
    CHECK(at_start == 50);
    const auto before = spec->list_services();
    put(service_yaml("s7", "10.0.1.7"));
    CHECK(decoded() == at_start + 1);
    CHECK(metrics.value("osm_spec_decoded_total", {{"kind", "Service"}}) == 51);
    const auto after = spec->list_services();
    int different = 0;
    for (std::size_t i = 0; i < before.size(); ++i) different += before[i] != after[i];
    CHECK(different == 1);
    CHECK(take() == std::vector<Keys>{{{kinds::kService, "shop", "s7"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "an edit without meaning tells nobody and keeps the pointer") {
    put(service_yaml("books", "10.0.0.1"));
    start();
    const auto before = spec->get_service({"shop", "books"});
    put(service_yaml("books", "10.0.0.1") + "status: {x: y}\n");
    CHECK(take().empty());
    CHECK(spec->get_service({"shop", "books"}) == before);
  }

  TEST_CASE_FIXTURE(Fixture, "an invalid object is left out whether or not it was valid before") {
    put(routes_yaml());
    start();
    take();
    const std::string head =
        "apiVersion: specs.smi-spec.io/v1alpha4\nkind: HTTPRouteGroup\n"
        "metadata: {name: routes, namespace: shop}\n";
    put(head + "spec: {matches: all}\n");
    CHECK(spec->list_http_traffic_specs().empty());
    CHECK(take() == std::vector<Keys>{{kRoutes}});
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0] ==
          "mesh/a.yaml:4: HTTPRouteGroup shop/routes: spec.matches: must be a list "
          "[invalid-field]");
    put(head + "spec: {}\n");  // as wrong as before, but otherwise
    CHECK(take() == std::vector<Keys>{{}});
    store.remove(kRoutes);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a bad element leaves its object in the mesh, and is reported") {
    put(routes_yaml());
    start();
    take();
    put(routes_yaml("("));
    REQUIRE(spec->list_http_traffic_specs().size() == 1);
    CHECK(spec->list_http_traffic_specs()[0]->matches.empty());
    CHECK(take() == std::vector<Keys>{{kRoutes}});
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0] ==
          "mesh/a.yaml:4: HTTPRouteGroup shop/routes: spec.matches[0].pathRegex: not an RE2 regex: "
          "missing ): (; only this match is left out of a stored object [invalid-regex]");
    put(routes_yaml("(("));  // the same value with another problem
    CHECK(take() == std::vector<Keys>{{}});
    put(routes_yaml());
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a namespace enters and leaves the mesh with all it holds") {
    store.remove({kinds::kNamespace, "", "shop"});
    put(service_yaml("books", "10.0.0.1"));
    put(target_yaml("buyer"));
    put(routes_yaml());
    start();
    CHECK(spec->list_services().empty());
    CHECK(decoded() == 0);
    REQUIRE(problems().size() == 1);  // Services may be outside, policies without effect are told
    CHECK(problems()[0].find("its 2 policies are ignored; label a Namespace object with "
                             "openservicemesh.io/monitored-by: osm") != std::string::npos);
    put(kShop);
    CHECK(spec->list_services().size() == 1);
    CHECK(problems().empty());
    CHECK(take() == std::vector<Keys>{{kRoutes, {kinds::kNamespace, "", "shop"}, kBooks, kTarget}});
    put("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: "
        "{openservicemesh.io/monitored-by: another}}\n");
    CHECK(spec->list_traffic_targets().empty());
    CHECK(spec->list_namespaces().empty());
    CHECK(problems().empty());  // another mesh's
    CHECK(take() == std::vector<Keys>{{kRoutes, {kinds::kNamespace, "", "shop"}, kBooks, kTarget}});
  }

  TEST_CASE_FIXTURE(Fixture, "without MeshConfig the mesh is strict, and with one it follows") {
    start();
    CHECK(spec->get_mesh_config() == MeshConfig{});
    CHECK_FALSE(spec->get_mesh_config().proxy.permissive);
    put(config_yaml("true"));
    CHECK(spec->get_mesh_config().proxy.permissive);
    CHECK(take() == std::vector<Keys>{{kConfig}});
    put(config_yaml("maybe"));
    CHECK(spec->get_mesh_config().proxy.permissive);  // the last good one
    CHECK(spec->has_synced());
    CHECK(problems().size() == 1);
    put(config_yaml("false"));
    CHECK_FALSE(spec->get_mesh_config().proxy.permissive);
    put(config_yaml("true", "mine"));
    CHECK_FALSE(spec->get_mesh_config().proxy.permissive);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("the mesh reads MeshConfig osm-system/osm-mesh-config") !=
          std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "names are read in the domain of the cluster, with and without MeshConfig") {
    put(service_yaml("books", "10.0.0.1"));
    put(service_yaml("v1", "10.0.0.2"));
    put(split_yaml("split", "v1.shop.svc.example.internal"));
    put("apiVersion: policy.openservicemesh.io/v1alpha1\nkind: UpstreamTrafficSetting\n"
        "metadata: {name: limits, namespace: shop}\n"
        "spec: {host: books.shop.svc.example.internal}\n");
    spec = spec::make_mesh_spec(
        {.store = store, .cluster_domain = "example.internal", .log = log, .metrics = metrics});
    CHECK(problems().empty());
    REQUIRE(spec->list_traffic_splits().size() == 1);
    CHECK(spec->list_traffic_splits()[0]->backends[0].service == "v1");
    REQUIRE(spec->list_policies().size() == 1);
    CHECK(model::links_of(*spec->list_policies()[0]).entries ==
          std::vector<model::EntryKey>{ServiceName{"shop", "books"}});
    CHECK(spec->get_mesh_config().proxy.cluster_domain == "example.internal");
    put(config_yaml("true") + "  observability: {tracing: {enable: true}}\n");
    CHECK(spec->get_mesh_config().proxy.permissive);
    CHECK(spec->get_mesh_config().proxy.cluster_domain == "example.internal");
    CHECK(spec->get_mesh_config().proxy.tracing.address ==
          "jaeger.osm-system.svc.example.internal");
    store.remove(kConfig);
    CHECK(spec->get_mesh_config().proxy.cluster_domain == "example.internal");
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that is deleted stays in force, and a problem says so") {
    put(config_yaml("true"));
    start();
    store.remove(kConfig);
    CHECK(spec->get_mesh_config().proxy.permissive);
    CHECK(take() == std::vector<Keys>{{}});  // a problem
    CHECK(problems() == std::vector<std::string>{
                            "MeshConfig osm-system/osm-mesh-config: does not exist; the last one "
                            "stays in force until this program ends; create it again, or create "
                            "one with an empty spec for the defaults [not-found]"});
    put(config_yaml("true"));
    CHECK(problems().empty());
    put("apiVersion: config.openservicemesh.io/v1alpha2\nkind: MeshConfig\n"
        "metadata: {name: osm-mesh-config, namespace: osm-system}\nspec: {}\n");
    CHECK(spec->get_mesh_config() == MeshConfig{});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig broken at the start holds readiness back") {
    put(config_yaml("maybe"));
    start();
    CHECK_FALSE(spec->has_synced());
    put(config_yaml("true"));
    CHECK(spec->has_synced());
  }

  TEST_CASE_FIXTURE(Fixture, "CAs are read from the control plane's namespace, and no other") {
    start();
    CHECK(spec->list_root_certificates().empty());
    put(root_yaml("next", "passive") + "---\n" + root_yaml("first", "active"));
    auto roots = spec->list_root_certificates();
    REQUIRE(roots.size() == 2);
    CHECK(roots[0]->name == "first");
    CHECK(roots[1]->name == "next");
    const ObjectKey first{kinds::kMeshRootCertificate, "osm-system", "first"};
    const ObjectKey next{kinds::kMeshRootCertificate, "osm-system", "next"};
    CHECK(take() == std::vector<Keys>{{first, next}});

    put(root_yaml("next", "active"));
    CHECK(take() == std::vector<Keys>{{next}});
    CHECK(spec->list_root_certificates()[0] == roots[0]);  // keeps its pointer
    CHECK(spec->list_root_certificates()[1]->role == RootRole::kActive);
    store.remove(first);
    CHECK(take() == std::vector<Keys>{{first}});
    CHECK(spec->list_root_certificates().size() == 1);

    put(root_yaml("next", "active", "shop"));
    CHECK(spec->list_root_certificates().size() == 1);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("MeshRootCertificate are read in namespace osm-system") !=
          std::string::npos);
    store.remove({kinds::kMeshRootCertificate, "shop", "next"});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a CA that is broken later stays what it was") {
    put(root_yaml("first", "active"));
    start();
    put(root_yaml("first", "aktive"));
    REQUIRE(spec->list_root_certificates().size() == 1);
    CHECK(spec->list_root_certificates()[0]->role == RootRole::kActive);
    CHECK(spec->has_synced());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("mesh/a.yaml:5: MeshRootCertificate osm-system/first: spec.role: ") ==
          0);
    put(root_yaml("first", "passive"));
    CHECK(spec->list_root_certificates()[0]->role == RootRole::kPassive);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a CA broken at the start holds readiness back: another would sign") {
    put(root_yaml("first", "aktive"));
    start();
    CHECK(spec->list_root_certificates().empty());
    CHECK_FALSE(spec->has_synced());
    put(root_yaml("first", "active"));
    CHECK(spec->has_synced());
    put(root_yaml("second", "aktive"));
    CHECK(spec->has_synced());
    CHECK(spec->list_root_certificates().size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "syncs when the store does, and says so with an empty list") {
    store.set_synced(false);
    put(service_yaml("books", "10.0.0.1"));
    start();
    CHECK_FALSE(spec->has_synced());
    store.set_synced(true);
    CHECK(spec->has_synced());
    CHECK(take() == std::vector<Keys>{{}});
  }

  TEST_CASE_FIXTURE(Fixture, "references to what is missing are named, and the rest stands") {
    put(service_yaml("books", "10.0.0.1"));
    put(target_yaml("buyer", "nowhere"));
    put(split_yaml("split", "v9"));
    start();
    CHECK(spec->list_traffic_targets().size() == 1);
    CHECK(spec->list_traffic_splits().size() == 1);
    REQUIRE(problems().size() == 2);
    CHECK(problems()[0] ==
          "mesh/a.yaml:4: TrafficSplit shop/split: spec.backends[0].service: Service shop/v9 is "
          "not there, or is invalid and left out [dangling-reference]");
    CHECK(problems()[1] ==
          "mesh/a.yaml:8: TrafficTarget shop/buyer: spec.rules[0].name: HTTPRouteGroup "
          "shop/nowhere is not there, or is invalid and left out; this rule allows nothing "
          "[dangling-reference]");
    CHECK(spec->source_of({kinds::kTrafficTarget, "shop", "buyer"})->path == "mesh/a.yaml");
    CHECK_FALSE(spec->source_of({kinds::kTrafficTarget, "shop", "seller"}));
    put(target_yaml("buyer", "routes", "sell"));
    put(routes_yaml());
    put(service_yaml("v9", "10.0.0.9"));
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("spec.rules[0].matches: HTTPRouteGroup shop/routes has no match "
                             "\"sell\", or it is invalid and left out [dangling-reference]") !=
          std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "of two splits on one apex the first by name is used") {
    put(service_yaml("books", "10.0.0.1"));
    put(service_yaml("v1", "10.0.0.2"));
    put(split_yaml("b"));
    put(split_yaml("a"));
    start();
    REQUIRE(spec->list_traffic_splits().size() == 1);
    CHECK(spec->list_traffic_splits()[0]->name.name == "a");
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("TrafficSplit shop/b: spec.service: TrafficSplit shop/a already "
                             "splits Service shop/books") != std::string::npos);
    take();
    store.remove({kinds::kTrafficSplit, "shop", "a"});
    CHECK(spec->list_traffic_splits()[0]->name.name == "b");
    CHECK(take() == std::vector<Keys>{{{kinds::kTrafficSplit, "shop", "a"},
                                       {kinds::kTrafficSplit, "shop", "b"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "a Service has its object's age, for who decides about its address") {
    put(service_yaml("b", "10.0.0.1"));
    Object older = *store.get({kinds::kService, "shop", "b"});
    older.created = {7, {}};
    store.put(older);
    start();
    REQUIRE(spec->list_services().size() == 1);
    CHECK(spec->list_services()[0]->created == Created{7, {}});
    CHECK_FALSE(spec->list_services()[0]->assigned);
    take();
    older.created = {9, "uid"};  // made anew, with the same content
    store.put(older);
    CHECK(spec->list_services()[0]->created == Created{9, "uid"});
    CHECK(spec->list_services()[0]->assigned);
    CHECK(take() == std::vector<Keys>{{{kinds::kService, "shop", "b"}}});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "the store's problems are listed with its own") {
    start();
    store.set_problems({{ErrorCode::kInvalidSyntax, {}, "mesh/x.yaml", 3, "", "not YAML"}});
    CHECK(problems() == std::vector<std::string>{"mesh/x.yaml:3: not YAML [invalid-syntax]"});
    CHECK(take() == std::vector<Keys>{{}});
  }
}
