// A change in the cluster reaches only the proxies that it concerns.
//
// Whom a change in the cluster reaches: objects in, and out come the proxies whose configuration is
// another. Everything between is real but the API server and the wire.
#include <doctest/doctest.h>

#include <map>
#include <set>
#include <utility>

#include "catalog/mesh_builder.hpp"
#include "kubernetes/source/pods_yaml.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "translate/translate.hpp"

using namespace osm;
using osm::testing::endpoint_yaml;
using osm::testing::pod_yaml;
using osm::testing::PodSpec;
using osm::testing::put_objects;
using osm::testing::slice_yaml;
using osm::testing::SliceSpec;
using osm::testing::uuid_of;

namespace {

using Names = std::set<std::string>;

std::string namespace_yaml(const std::string& name, bool monitored = true) {
  return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name +
         (monitored ? ", labels: {openservicemesh.io/monitored-by: osm}" : "") + "}\n---\n";
}

std::string service_yaml(const std::string& ns, const std::string& name, const std::string& ip,
                         int port = 80) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: " + ns +
         "}\nspec: {clusterIP: " + ip + ", selector: {app: " + name +
         "}, ports: [{name: http, port: " + std::to_string(port) + ", targetPort: 8080}]}\n---\n";
}

std::string target_yaml(const std::string& ns, const std::string& destination,
                        const std::string& source) {
  return "apiVersion: access.smi-spec.io/v1alpha3\nkind: TrafficTarget\nmetadata: {name: " +
         destination + ", namespace: " + ns +
         "}\nspec:\n  destination: {kind: ServiceAccount, "
         "name: " +
         destination + ", namespace: " + ns +
         "}\n  sources: [{kind: ServiceAccount, name: " + source + ", namespace: " + ns +
         "}]\n  rules: [{kind: HTTPRouteGroup, name: all, matches: [all]}]\n---\n"
         "apiVersion: specs.smi-spec.io/v1alpha4\nkind: HTTPRouteGroup\nmetadata: {name: all, "
         "namespace: " +
         ns + "}\nspec: {matches: [{name: all, pathRegex: '.*', methods: ['*']}]}\n---\n";
}

PodSpec pod(int number, const std::string& ns, const std::string& app, const std::string& name) {
  return {.name = name,
          .uuid = uuid_of(number),
          .address = "10.1.0." + std::to_string(number),
          .labels = "app: " + app,
          .account = app,
          .ns = ns};
}

std::string slice(const std::string& ns, const std::string& service,
                  const std::vector<std::pair<int, std::string>>& pods) {
  SliceSpec spec{.name = service + "-x", .service = service, .endpoints = {}};
  for (const auto& [number, name] : pods)
    spec.endpoints.push_back("{addresses: [10.1.0." + std::to_string(number) +
                             "], targetRef: {kind: Pod, namespace: " + ns + ", name: " + name +
                             "}}");
  spec.ports = "{name: http, port: 8080}";
  spec.ns = ns;
  return slice_yaml(spec);
}

// In `shop` the account client may call books, and nobody calls other; in `bank`, client may call
// vault. Both have the same names, so that only the namespace keeps them apart.
struct Cluster {
  Cluster() {
    put(namespace_yaml("shop") + service_yaml("shop", "books", "10.96.0.1") +
        service_yaml("shop", "other", "10.96.0.2") + target_yaml("shop", "books", "client") +
        pod_yaml(pod(1, "shop", "client", "client-1")) +
        pod_yaml(pod(2, "shop", "books", "books-1")) +
        pod_yaml(pod(3, "shop", "books", "books-2")) +
        pod_yaml(pod(4, "shop", "other", "other-1")) +
        slice("shop", "books", {{2, "books-1"}, {3, "books-2"}}) +
        slice("shop", "other", {{4, "other-1"}}));
    put(namespace_yaml("bank") + service_yaml("bank", "books", "10.96.1.1") +
        target_yaml("bank", "books", "client") + pod_yaml(pod(11, "bank", "client", "client-1")) +
        pod_yaml(pod(12, "bank", "books", "books-1")) + slice("bank", "books", {{12, "books-1"}}));
    builder.all_workloads_changed();
    REQUIRE(reached().size() == 6);
  }

  void put(const std::string& yaml) { REQUIRE_MESSAGE(put_objects(store, yaml), yaml); }

  // The pods whose proxies hold something else than when this was last asked.
  Names reached() {
    if (const auto snapshot = builder.build()) {
      CHECK(snapshot->problems->empty());
      now = configurations(*snapshot);
    }
    Names out;
    for (const auto& [name, configuration] : now)
      if (const auto at = before.find(name); at == before.end() || at->second != configuration)
        out.insert(name);
    for (const auto& [name, configuration] : before)
      if (!now.contains(name)) out.insert(name);
    before = now;
    return out;
  }

  // By pod, the keys of all its proxy's resources. Bytes follow from keys, and keys from bytes.
  using Configurations = std::map<std::string, std::set<std::string>>;

  static Configurations configurations(const model::MeshSnapshot& snapshot) {
    Configurations out;
    for (const auto& entry : snapshot.workloads) {
      auto& keys = out[entry->workload.name.str()];
      keys.insert(entry->workload.account.str());  // its secrets
      const auto proxy_class = translate::class_of(snapshot, entry->workload);
      for (const XdsType type :
           {XdsType::kCluster, XdsType::kEndpoint, XdsType::kListener, XdsType::kRoute})
        for (const auto& input : translate::inputs_for(snapshot, proxy_class, type))
          keys.insert(input->name() + ' ' + input->key().hex());
    }
    return out;
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<MeshSpec> spec =
      spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  std::unique_ptr<kubernetes::Provider> provider = kubernetes::make_provider(
      {.store = store, .mesh_spec = *spec, .log = log, .metrics = metrics});
  catalog::MeshBuilder builder{
      *spec, {{provider.get()}}, {provider.get()}, TrustDomain("cluster.local")};
  // As the mesh loop folds what it is told.
  Subscription of_endpoints = provider->subscribe(
      [this](const std::vector<ServiceName>& names) { builder.endpoints_changed(names); });
  Subscription of_workloads = provider->subscribe_workloads(
      [this](const std::vector<WorkloadName>& names) { builder.workloads_changed(names); });
  Configurations before;
  Configurations now;
};

}  // namespace

TEST_SUITE("whom a change in the cluster reaches") {
  TEST_CASE_FIXTURE(Cluster, "a pod that starts: itself, then who may call its Service") {
    put(pod_yaml(pod(5, "shop", "books", "books-3")));
    CHECK(reached() == Names{"shop/books-3"});
    put(slice("shop", "books", {{2, "books-1"}, {3, "books-2"}, {5, "books-3"}}));
    CHECK(reached() == Names{"shop/client-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "a pod that ends: who may call its Service, and itself") {
    put(slice("shop", "books", {{2, "books-1"}}));
    CHECK(reached() == Names{"shop/client-1"});
    store.remove({kinds::kPod, "shop", "books-2"});
    CHECK(reached() == Names{"shop/books-2"});
  }

  TEST_CASE_FIXTURE(Cluster, "labels that leave a Service: the pod, and who may call it") {
    PodSpec moved = pod(3, "shop", "books", "books-2");
    moved.labels = "app: nothing";
    put(pod_yaml(moved) + slice("shop", "books", {{2, "books-1"}}));
    CHECK(reached() == Names{"shop/books-2", "shop/client-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "labels that no Service asks for: nobody") {
    PodSpec labelled = pod(3, "shop", "books", "books-2");
    labelled.labels += ", pod-template-hash: abc";
    put(pod_yaml(labelled));
    CHECK(reached().empty());
  }

  TEST_CASE_FIXTURE(Cluster, "a pod that returns under another account: it, and who called it") {
    PodSpec other = pod(3, "shop", "books", "books-2");
    other.account = "spare";
    put(pod_yaml(other));
    CHECK(reached() == Names{"shop/books-2", "shop/client-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "a pod's conditions and restarts: nobody") {
    put(pod_yaml(pod(2, "shop", "books", "books-1")) + "# again\n");
    CHECK(reached().empty());
    put("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: shop}\n");
    CHECK(reached().empty());
  }

  TEST_CASE_FIXTURE(Cluster, "a Service: the pods it selects, and who may call their account") {
    put("apiVersion: v1\nkind: Service\nmetadata: {name: second, namespace: shop}\nspec: "
        "{clusterIP: 10.96.0.9, selector: {app: other}, ports: [{name: http, port: 80, "
        "targetPort: 8080}]}\n");
    // Nobody may call other-1. The Service is idle, so it could be of any account in the namespace.
    CHECK(reached() == Names{"shop/client-1", "shop/other-1"});
    put(service_yaml("shop", "books", "10.96.0.1", 8000));
    CHECK(reached() == Names{"shop/books-1", "shop/books-2", "shop/client-1"});
    put(service_yaml("shop", "books", "10.96.0.7", 8000));  // where clients dial it
    CHECK(reached() == Names{"shop/client-1"});
    store.remove({kinds::kService, "shop", "books"});
    CHECK(reached() == Names{"shop/books-1", "shop/books-2", "shop/client-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "a policy: its sources and its destination's pods") {
    put(target_yaml("shop", "other", "client"));
    CHECK(reached() == Names{"shop/client-1", "shop/other-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "a namespace that leaves or enters: its own pods") {
    put(namespace_yaml("bank", false));
    CHECK(reached() == Names{"bank/books-1", "bank/client-1"});
    put(namespace_yaml("bank"));
    CHECK(reached() == Names{"bank/books-1", "bank/client-1"});
  }

  TEST_CASE_FIXTURE(Cluster, "a pod that claims another's UUID, or a slice another's pod: nobody") {
    PodSpec forger = pod(2, "bank", "client", "forger");
    forger.secret = "mine";
    put(pod_yaml(forger));
    CHECK(reached().empty());
    put(slice("bank", "books", {{12, "books-1"}, {2, "books-1"}, {4, "other-1"}}));
    CHECK(reached().empty());
  }
}
