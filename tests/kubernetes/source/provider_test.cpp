// Pods with sidecars become workloads and endpoints of their Services.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/pods_yaml.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;
using osm::testing::endpoint_yaml;
using osm::testing::pod_yaml;
using osm::testing::PodSpec;
using osm::testing::slice_yaml;
using osm::testing::SliceSpec;
using osm::testing::uuid_of;

namespace {

using Names = std::vector<std::string>;
using Services = std::vector<ServiceName>;
using Workloads = std::vector<WorkloadName>;

Service service(const std::string& name, std::map<std::string, std::string> selector,
                std::vector<ServicePort> ports = {{"", Port{80}, Port{8080}, Protocol::kHttp}}) {
  return {{"shop", name}, "10.96.0.1", false, std::move(selector), std::move(ports)};
}

struct Fixture {
  Fixture() { mesh.put_namespace("shop"); }

  void start() {
    provider = kubernetes::make_provider(
        {.store = store, .mesh_spec = mesh, .log = log, .metrics = metrics});
    services_subscription =
        provider->subscribe([this](const Services& names) { services.push_back(names); });
    workloads_subscription = provider->subscribe_workloads(
        [this](const Workloads& names) { workloads.push_back(names); });
  }
  void put(const std::string& yaml) {
    REQUIRE_MESSAGE(osm::testing::put_objects(store, yaml), yaml);
  }
  void put(const PodSpec& pod) { put(pod_yaml(pod)); }
  void put(const SliceSpec& slice) { put(slice_yaml(slice)); }
  void remove_pod(const std::string& name) { store.remove({kinds::kPod, "shop", name}); }
  // Pods pod-1, pod-2, ... at 10.1.0.1, ..., and the slice of `books` that lists them.
  void put_books(int count) {
    SliceSpec slice{"books-x", "books", {}};
    for (int n = 1; n <= count; ++n) {
      const std::string digit = std::to_string(n);
      put(PodSpec{.name = "pod-" + digit, .uuid = uuid_of(n), .address = "10.1.0." + digit});
      slice.endpoints.push_back(endpoint_yaml("10.1.0." + digit, "pod-" + digit));
    }
    put(slice);
  }

  std::vector<Endpoint> list(const std::string& name) const {
    auto list = provider->list_endpoints_for_service({"shop", name});
    REQUIRE(list.has_value());
    std::sort(list->begin(), list->end());
    return *list;
  }
  // "address:port/service_port", those that are not healthy in brackets.
  Names endpoints(const std::string& name = "books") const {
    Names out;
    for (const Endpoint& endpoint : list(name)) {
      const std::string text = endpoint.address + ':' + std::to_string(number(endpoint.port)) +
                               '/' + endpoint.service_port;
      out.push_back(endpoint.healthy ? text : '(' + text + ')');
    }
    return out;
  }
  Names problems() const {
    Names out;
    for (const auto& problem : provider->list_problems()) out.push_back(problem.text());
    return out;
  }
  std::optional<Workload> found(int uuid, const std::string& ns = "shop") const {
    for (const Workload& workload : provider->list_workloads())
      if (workload.name.ns == ns && workload.proxy_id == ProxyId(uuid_of(uuid))) return workload;
    return std::nullopt;
  }
  std::string served(int uuid, const std::string& ns = "shop") const {
    const auto workload = found(uuid, ns);
    return workload ? workload->name.str() : "nobody";
  }
  double recomputed() const { return metrics.sum("osm_kubernetes_services_recomputed_total"); }
  void forget() {
    services.clear();
    workloads.clear();
  }

  osm::testing::MemoryObjectStore store;
  osm::testing::MemoryMeshSpec mesh;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<kubernetes::Provider> provider;
  Subscription services_subscription;
  Subscription workloads_subscription;
  std::vector<Services> services;
  std::vector<Workloads> workloads;
};

// Announces its content later than it shows it, as a store does in whose turn another subscriber
// comes first.
struct LateStore final : ObjectStore {
  explicit LateStore(ObjectStore& of) : inner(of) {}
  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override {
    return inner.list(kind);
  }
  std::shared_ptr<const Object> get(const ObjectKey& key) const override { return inner.get(key); }
  bool has_synced() const override { return synced; }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe(std::function<void(const std::vector<ObjectKey>&)> on_change) override {
    return told.subscribe(std::move(on_change));
  }

  ObjectStore& inner;
  bool synced = false;
  Notifier<const std::vector<ObjectKey>&> told;
};

}  // namespace

TEST_SUITE("kubernetes::Provider: pods") {
  TEST_CASE_FIXTURE(Fixture, "it has synced when it has read everything, not when its store has") {
    LateStore late(store);
    mesh.set_synced(false);
    mesh.put(service("books", {{"app", "books"}}));
    provider = kubernetes::make_provider(
        {.store = late, .mesh_spec = mesh, .log = log, .metrics = metrics});
    put_books(1);
    late.synced = true;
    mesh.set_synced(true);  // the specification hears of it first, and says so
    CHECK_FALSE(provider->has_synced());
    late.told.notify({{kinds::kPod, "shop", "pod-1"},
                      {kubernetes::kEndpointSlices.group_kind(), "shop", "books-x"}});
    CHECK(provider->has_synced());
    CHECK(endpoints() == Names{"10.1.0.1:8080/"});
  }

  TEST_CASE_FIXTURE(Fixture, "a workload is a pod with a sidecar, found by its UUID label") {
    mesh.put(service("books", {{"app", "books"}}));
    mesh.put(service("all", {{"app", "books"}}));
    mesh.put(service("other", {{"app", "x"}}));
    put(PodSpec{.name = "web-0",
                .uuid = uuid_of(1),
                .ports = "{name: web, containerPort: 8080}, {name: dns, containerPort: 53, "
                         "protocol: UDP}",
                .address6 = "fd00::1"});
    put(PodSpec{.name = "plain", .uuid = "", .secret = "x"});
    start();
    CHECK(provider->id() == "kubernetes");
    const Workload wanted{
        {"shop", "web-0"},     ProxyId(uuid_of(1)),
        {"shop", "books"},     "10.1.0.1",
        {{"web", Port{8080}}}, {{"shop", "all"}, {"shop", "books"}},
        WorkloadKind::kPod,    {{"app", "books"}, {"osm-proxy-uuid", uuid_of(1)}}};
    CHECK(provider->list_workloads() == std::vector<Workload>{wanted});
    CHECK(served(1) == "shop/web-0");
    CHECK(served(1, "other") == "nobody");
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a pod that waits for its address is served, one that ended is not") {
    put(PodSpec{.name = "young", .uuid = uuid_of(1), .address = "", .phase = "Pending"});
    put(PodSpec{.name = "done", .uuid = uuid_of(2), .phase = "Succeeded"});
    put(PodSpec{.name = "broken", .uuid = uuid_of(3), .phase = "Failed"});
    start();
    CHECK(served(1) == "shop/young");
    CHECK(served(2) == "nobody");
    CHECK(served(3) == "nobody");
    CHECK(problems().empty());
    put(PodSpec{.name = "young", .uuid = uuid_of(1), .phase = "Failed"});
    CHECK(served(1) == "nobody");
    CHECK(workloads == std::vector<Workloads>{{{"shop", "young"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "a UUID that another pod writes on itself stays its owner's") {
    put(PodSpec{.name = "owner", .uuid = uuid_of(1), .created = "2026-01-02T00:00:00Z"});
    // Older, but without the UUID's Secret.
    put(PodSpec{
        .name = "forger", .uuid = uuid_of(1), .created = "2026-01-01T00:00:00Z", .secret = "mine"});
    start();
    CHECK(served(1) == "shop/owner");
    CHECK(problems() ==
          Names{"Pod shop/forger: metadata.labels.osm-proxy-uuid: Pod "
                "shop/owner has this proxy UUID already and keeps it; this one is not "
                "served: leave the label to the injector and create the pod anew "
                "[duplicate-object]"});
    // Mounts it, but came later.
    put(PodSpec{.name = "copy", .uuid = uuid_of(1), .created = "2026-01-03T00:00:00Z"});
    CHECK(served(1) == "shop/owner");
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("this one and 1 more are not served") != std::string::npos);
    remove_pod("owner");
    CHECK(served(1) == "shop/copy");
    remove_pod("copy");
    CHECK(served(1) == "nobody");
    CHECK(problems()[0].find("Pod shop/forger: metadata.labels.osm-proxy-uuid: does not mount "
                             "Secret envoy-bootstrap-config-" +
                             uuid_of(1)) != std::string::npos);
    remove_pod("forger");
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "of equally old pods the first by uid has the UUID") {
    put(PodSpec{.name = "b", .uuid = uuid_of(1)});
    put(PodSpec{.name = "a", .uuid = uuid_of(1)});
    start();
    CHECK(served(1) == "shop/a");
  }

  TEST_CASE_FIXTURE(Fixture, "a pod may leave one UUID for another") {
    put(PodSpec{.name = "a", .uuid = uuid_of(1)});
    put(PodSpec{.name = "b", .uuid = uuid_of(2)});
    start();
    put(pod_yaml({.name = "a", .uuid = uuid_of(2), .created = "2025-01-01T00:00:00Z"}) +
        pod_yaml({.name = "b", .uuid = uuid_of(1)}));
    CHECK(served(1) == "shop/b");
    CHECK(served(2) == "shop/a");
    CHECK(provider->list_workloads().size() == 2);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a pod that cannot be a workload is reported by field, with the remedy") {
    put(PodSpec{.name = "a", .uuid = "6F2C"});
    put(PodSpec{.name = "b", .uuid = uuid_of(2), .account = "a.b"});
    start();
    CHECK(provider->list_workloads().empty());
    REQUIRE(problems().size() == 2);
    CHECK(problems()[0].find("Pod shop/a: metadata.labels.osm-proxy-uuid: is no UUID in lower "
                             "case") != std::string::npos);
    CHECK(problems()[1].find("Pod shop/b: spec.serviceAccountName: an account of the mesh is a "
                             "DNS label") != std::string::npos);
    workloads.clear();
    put(PodSpec{.name = "a", .uuid = uuid_of(1)});
    CHECK(problems().size() == 1);
    remove_pod("b");
    CHECK(problems().empty());
    CHECK(workloads == std::vector<Workloads>{{{"shop", "a"}}, {}});
  }

  TEST_CASE_FIXTURE(Fixture, "a sidecar container's named port counts, an init container's not") {
    put("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, labels: "
        "{osm-proxy-uuid: '" +
        uuid_of(1) +
        "'}}, spec: {serviceAccountName: a, volumes: [{secret: {secretName: "
        "envoy-bootstrap-config-" +
        uuid_of(1) +
        "}}], containers: [{ports: [{name: web, containerPort: 1}]}, {ports: [{name: web, "
        "containerPort: 2}]}], initContainers: [{ports: [{name: once, containerPort: 3}]}, "
        "{restartPolicy: Always, ports: [{name: side, containerPort: 4}]}]}}");
    start();
    REQUIRE(provider->list_workloads().size() == 1);
    CHECK(provider->list_workloads()[0].ports ==
          std::map<std::string, Port>{{"side", Port{4}}, {"web", Port{1}}});
  }

  TEST_CASE_FIXTURE(Fixture, "a Service that changes its selector touches the pods it concerns") {
    mesh.put(service("a", {{"app", "a"}}));
    mesh.put(service("b", {{"app", "b"}, {"tier", "front"}}));
    put(PodSpec{.name = "one", .uuid = uuid_of(1), .labels = "app: a"});
    put(PodSpec{.name = "two", .uuid = uuid_of(2), .labels = "app: b, tier: front"});
    put(PodSpec{.name = "three", .uuid = uuid_of(3), .labels = "app: b"});
    start();
    CHECK(found(3)->services.empty());
    forget();
    mesh.put(service("a", {{"app", "b"}}));
    CHECK(workloads ==
          std::vector<Workloads>{{{"shop", "one"}, {"shop", "three"}, {"shop", "two"}}});
    CHECK(found(1)->services.empty());
    CHECK(found(2)->services == Services{{"shop", "a"}, {"shop", "b"}});
    forget();
    mesh.remove({kinds::kService, "shop", "b"});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "two"}}});
    forget();
    Service moved = service("a", {{"app", "b"}});
    moved.cluster_ip = "10.96.0.9";  // nothing a pod or endpoint depends on
    mesh.put(moved);
    CHECK(workloads.empty());
    CHECK(services.empty());
  }
}

TEST_SUITE("kubernetes::Provider: endpoints") {
  TEST_CASE_FIXTURE(Fixture, "a Service's endpoints run as the pods that its slices name") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(1);
    put(SliceSpec{"books-x",
                  "books",
                  {endpoint_yaml("10.1.0.1", "pod-1", "", ", zone: east")}});  // ready unsaid
    start();
    CHECK(list("books") == std::vector<Endpoint>{{.address = "10.1.0.1",
                                                  .port = Port{8080},
                                                  .service_port = "",
                                                  .identity = {"shop", "books"},
                                                  .zone = "east",
                                                  .weight = {}}});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a Service without slices has no endpoints, an unknown one no answer") {
    mesh.put(service("books", {{"app", "books"}}));
    put(SliceSpec{"stray", "nowhere", {}});
    start();
    CHECK(endpoints().empty());
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "nowhere"}));
    CHECK_FALSE(provider->list_endpoints_for_service({"other", "books"}));
    forget();
    mesh.remove({kinds::kService, "shop", "books"});
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "books"}));
    CHECK(services == std::vector<Services>{{{"shop", "books"}}});
  }

  TEST_CASE_FIXTURE(Fixture, "a pod that is not ready is known and gets no traffic") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(3);
    put(SliceSpec{
        "books-x",
        "books",
        {endpoint_yaml("10.1.0.1", "pod-1"), endpoint_yaml("10.1.0.2", "pod-2", "ready: false"),
         endpoint_yaml("10.1.0.3", "pod-3", "ready: false, serving: true, terminating: true")}});
    start();
    CHECK(endpoints() == Names{"10.1.0.1:8080/", "(10.1.0.2:8080/)", "(10.1.0.3:8080/)"});
    // Rather to those that still serve while they end than to nobody.
    put(SliceSpec{
        "books-x",
        "books",
        {endpoint_yaml("10.1.0.2", "pod-2", "ready: false"),
         endpoint_yaml("10.1.0.3", "pod-3", "ready: false, serving: true, terminating: true")}});
    CHECK(endpoints() == Names{"(10.1.0.2:8080/)", "10.1.0.3:8080/"});
  }

  TEST_CASE_FIXTURE(Fixture, "ports are the Service's by name, at the number that each pod has") {
    mesh.put(service("books", {{"app", "books"}},
                     {{"http", Port{80}, std::string("web"), Protocol::kHttp},
                      {"tcp", Port{90}, Port{9000}, Protocol::kTcp}}));
    put_books(2);
    put(SliceSpec{"books-x",
                  "books",
                  {endpoint_yaml("10.1.0.1", "pod-1")},
                  "{name: http, port: 8080}, {name: tcp, port: 9000}, {name: tcp, port: 53, "
                  "protocol: UDP}, {name: strange, port: 7}"});
    put(SliceSpec{
        "books-y", "books", {endpoint_yaml("10.1.0.2", "pod-2")}, "{name: http, port: 8081}"});
    start();
    CHECK(endpoints() == Names{"10.1.0.1:8080/http", "10.1.0.1:9000/tcp", "10.1.0.2:8081/http"});
  }

  TEST_CASE_FIXTURE(Fixture,
                    "an endpoint that is in two slices counts once, ready if either says") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(1);
    put(SliceSpec{"books-y", "books", {endpoint_yaml("10.1.0.1", "pod-1", "ready: false")}});
    start();
    CHECK(endpoints() == Names{"10.1.0.1:8080/"});
    store.remove({kubernetes::kEndpointSlices.group_kind(), "shop", "books-x"});
    CHECK(endpoints() == Names{"(10.1.0.1:8080/)"});
    store.remove({kubernetes::kEndpointSlices.group_kind(), "shop", "books-y"});
    CHECK(endpoints().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "IPv6 takes nothing from IPv4, and by itself is reported") {
    mesh.put(service("books", {{"app", "books"}}));
    put(PodSpec{.name = "pod-1", .uuid = uuid_of(1), .address6 = "fd00::1"});
    put(SliceSpec{.name = "v6",
                  .service = "books",
                  .endpoints = {endpoint_yaml("fd00::1", "pod-1")},
                  .type = "IPv6"});
    start();
    CHECK(endpoints().empty());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0] ==
          "Service shop/books: 1 IPv6 address (fd00::1) behind it left out: the mesh carries IPv4 "
          "only yet; give the Service an IPv4 or dual-stack ipFamilyPolicy [unused-field]");
    put(SliceSpec{"v4", "books", {endpoint_yaml("10.1.0.1", "pod-1")}});
    CHECK(endpoints() == Names{"10.1.0.1:8080/"});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a name in place of an address is left out and reported") {
    mesh.put(service("books", {}));
    put(SliceSpec{.name = "fqdn",
                  .service = "books",
                  .endpoints = {endpoint_yaml("db.example", "")},
                  .type = "FQDN"});
    start();
    CHECK(endpoints().empty());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("Service shop/books: 1 host name (db.example) behind it left out") ==
          0);
  }

  TEST_CASE_FIXTURE(Fixture, "a Service of pods without a sidecar is served outside of the mesh") {
    const ServiceName books{"shop", "books"};
    mesh.put(service("books", {{"app", "books"}}));
    put(SliceSpec{"books-y", "books", {endpoint_yaml("10.1.1.1", "old-1")}});
    start();
    CHECK(provider->served_outside(books));
    CHECK(endpoints().empty());
    services.clear();
    put(SliceSpec{"books-y", "books", {}});
    CHECK_FALSE(provider->served_outside(books));
    CHECK(services == std::vector<Services>{{books}});
  }

  TEST_CASE_FIXTURE(Fixture, "addresses behind a source Service are followed in any namespace") {
    const ServiceName gateway{"edge", "gateway"};
    const auto addresses = [&] { return provider->list_source_addresses(gateway); };
    const auto slice = [](const std::string& name, Names endpoints) {
      return SliceSpec{
          .name = name, .service = "gateway", .endpoints = std::move(endpoints), .ns = "edge"};
    };
    put(slice("a",
              {endpoint_yaml("10.2.0.1", ""), endpoint_yaml("10.2.0.2", "", "ready: false"),
               endpoint_yaml("10.2.0.3", "", "ready: false, serving: true, terminating: true")}));
    put(SliceSpec{.name = "b",
                  .service = "other",
                  .endpoints = {endpoint_yaml("10.2.0.9", "")},
                  .ns = "edge"});
    start();
    CHECK(addresses().empty());  // no IngressBackend names it
    services.clear();
    IngressBackend policy;
    policy.services = {{gateway, 0}};
    mesh.put(Policy({kinds::kIngressBackend, "shop", "in"}, policy));
    CHECK(addresses() == Names{"10.2.0.1", "10.2.0.3"});
    CHECK(services == std::vector<Services>{{gateway}});
    services.clear();
    put(slice("c", {endpoint_yaml("10.2.0.4", "")}));
    CHECK(addresses() == Names{"10.2.0.1", "10.2.0.3", "10.2.0.4"});
    put(slice("a", {endpoint_yaml("10.2.0.1", "")}));
    put(slice("a", {endpoint_yaml("10.2.0.1", "", "ready: true, serving: true")}));
    CHECK(addresses() == Names{"10.2.0.1", "10.2.0.4"});
    store.remove({kubernetes::kEndpointSlices.group_kind(), "edge", "a"});
    CHECK(addresses() == Names{"10.2.0.4"});
    CHECK(services == std::vector<Services>{{gateway}, {gateway}, {gateway}});
    CHECK_FALSE(provider->list_endpoints_for_service(gateway));
  }

  TEST_CASE_FIXTURE(Fixture, "pods without a sidecar are reported by Service, not one by one") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(1);
    put(SliceSpec{"books-y",
                  "books",
                  {endpoint_yaml("10.1.1.1", "old-1"), endpoint_yaml("10.1.1.2", "old-2"),
                   endpoint_yaml("10.1.1.3", "old-3", "ready: false, terminating: true")}});
    start();
    CHECK(endpoints() == Names{"10.1.0.1:8080/"});
    CHECK(problems() ==
          Names{"Service shop/books: 2 pods (old-1, ...) behind it without a sidecar: the mesh "
                "sends them nothing; create them anew with injection enabled, or take them out of "
                "the selector [dangling-reference]"});
    put(pod_yaml({.name = "old-1", .uuid = uuid_of(8), .address = "10.1.1.1"}) +
        pod_yaml({.name = "old-2", .uuid = uuid_of(9), .address = "10.1.1.2"}));
    CHECK(endpoints().size() == 3);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a slice without pods is matched to the pods that have its addresses") {
    mesh.put(service("manual", {}));
    put_books(1);
    put(SliceSpec{
        "manual-1", "manual", {endpoint_yaml("10.1.0.1", ""), endpoint_yaml("192.0.2.7", "")}});
    start();
    CHECK(endpoints("manual") == Names{"10.1.0.1:8080/"});
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("Service shop/manual: 1 address (192.0.2.7) behind it of nobody the "
                             "mesh knows") == 0);
    forget();
    put(PodSpec{.name = "late", .uuid = uuid_of(5), .address = "192.0.2.7"});
    CHECK(endpoints("manual").size() == 2);
    CHECK(services == std::vector<Services>{{{"shop", "manual"}}});
    // Two accounts at one address: nobody can say which of them answers.
    put(PodSpec{.name = "twin", .uuid = uuid_of(6), .address = "192.0.2.7", .account = "x"});
    CHECK(endpoints("manual") == Names{"10.1.0.1:8080/"});
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a slice cannot put a pod where it is not, nor reach another namespace") {
    mesh.put(service("books", {{"app", "books"}}));
    mesh.put_namespace("bank");
    put_books(1);
    put(PodSpec{.name = "vault", .uuid = uuid_of(7), .address = "10.2.0.1", .ns = "bank"});
    put(SliceSpec{"books-x", "books", {endpoint_yaml("10.2.0.1", "pod-1")}});
    put("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: y, namespace: "
        "shop, "
        "labels: {kubernetes.io/service-name: books}}\nports: [{port: 8080}]\nendpoints:\n"
        "- {addresses: [10.2.0.1], targetRef: {kind: Pod, namespace: bank, name: vault}}\n");
    start();
    CHECK(endpoints().empty());
    REQUIRE(problems().size() == 2);
    CHECK(problems()[0].find("1 address (10.2.0.1) behind it of nobody") != std::string::npos);
    CHECK(
        problems()[1].find("1 pod (pod-1) behind it listed at an address that it does not have") !=
        std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "a slice that still names a pod's namesake of before lists nobody") {
    mesh.put(service("db", {{"app", "db"}}));
    put(PodSpec{.name = "db-0", .uuid = uuid_of(1), .address = "10.1.0.1"});
    put("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: y, namespace: "
        "shop, "
        "labels: {kubernetes.io/service-name: db}}\nports: [{port: 8080}]\nendpoints:\n"
        "- {addresses: [10.1.0.1], targetRef: {kind: Pod, name: db-0, uid: former}}\n");
    start();
    CHECK(endpoints("db").empty());
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a change costs and announces what it touches") {
    constexpr int kServices = 20;
    for (int n = 0; n < kServices; ++n) {
      const std::string name = "s" + std::to_string(n);
      const std::string address = "10.1.0." + std::to_string(n + 1);
      mesh.put(service(name, {{"app", name}}));
      put(PodSpec{.name = "p" + std::to_string(n),
                  .uuid = uuid_of(n + 1),
                  .address = address,
                  .labels = "app: " + name});
      put(SliceSpec{name + "-x", name, {endpoint_yaml(address, "p" + std::to_string(n))}});
    }
    start();
    CHECK(recomputed() == kServices);
    forget();
    PodSpec pod{.name = "p3",
                .uuid = uuid_of(4),
                .address = "10.1.0.4",
                .labels = "app: s3",
                .account = "other"};
    put(pod);
    CHECK(recomputed() == kServices + 1);
    CHECK(services == std::vector<Services>{{{"shop", "s3"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "p3"}}});
    CHECK(list("s3")[0].identity == ServiceIdentity{"shop", "other"});
    forget();
    put(pod_yaml(pod) + "# touched\n");  // the same pod again
    put(SliceSpec{"s5-x", "s5", {endpoint_yaml("10.1.0.6", "p5", "ready: true, serving: true")}});
    CHECK(services.empty());
    CHECK(workloads.empty());
    CHECK(recomputed() <= kServices + 2);
    forget();
    remove_pod("p3");
    CHECK(services == std::vector<Services>{{{"shop", "s3"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "p3"}}});
    CHECK(endpoints("s3").empty());
  }
}

TEST_SUITE("kubernetes::Provider: sources") {
  TEST_CASE_FIXTURE(Fixture, "pods count in the mesh's namespaces only, from when they enter") {
    mesh.put(service("books", {{"app", "books"}}));
    mesh.remove({kinds::kNamespace, "", "shop"});
    put_books(2);
    start();
    CHECK(provider->list_workloads().empty());
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "books"}));
    forget();
    mesh.put_namespace("shop");
    CHECK(endpoints().size() == 2);
    CHECK(services == std::vector<Services>{{{"shop", "books"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "pod-1"}, {"shop", "pod-2"}}});
    forget();
    mesh.remove({kinds::kNamespace, "", "shop"});
    CHECK(provider->list_workloads().empty());
    CHECK(served(1) == "nobody");
    CHECK_FALSE(provider->list_endpoints_for_service({"shop", "books"}));
    CHECK(services == std::vector<Services>{{{"shop", "books"}}});
    CHECK(workloads == std::vector<Workloads>{{{"shop", "pod-1"}, {"shop", "pod-2"}}});
    forget();
    put(PodSpec{.name = "pod-3", .uuid = uuid_of(3)});
    CHECK(workloads.empty());
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
    store.set_synced(false);
    CHECK(provider->has_synced());
  }

  TEST_CASE_FIXTURE(Fixture, "an API server that is away makes it unhealthy and takes nothing") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(1);
    start();
    forget();
    store.set_problems({{ErrorCode::kUnavailable, {}, "https://api", 0, "", "no answer"}});
    CHECK_FALSE(provider->healthy());
    CHECK(endpoints().size() == 1);
    CHECK(served(1) == "shop/pod-1");
    CHECK(services == std::vector<Services>{{}});
    store.set_problems({{ErrorCode::kPermissionDenied, {}, "https://api", 0, "", "no pods"}});
    CHECK(provider->healthy());
    CHECK(services == std::vector<Services>{{}, {}});
  }

  TEST_CASE_FIXTURE(Fixture, "objects that make no sense make no endpoint and no noise") {
    mesh.put(service("books", {{"app", "books"}}));
    put_books(1);
    put("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: odd, namespace: "
        "shop, labels: {kubernetes.io/service-name: books}}\nports: [7, {port: 70000}, {port: "
        "'8080'}, null]\nendpoints: [7, null, {}, {addresses: []}, {addresses: [7]}, {addresses: "
        "[10.1.0.1], conditions: 7, targetRef: [], zone: 7}]\n");
    put("apiVersion: v1\nkind: Pod\nmetadata: {name: odd, namespace: shop, labels: "
        "{osm-proxy-uuid: '" +
        uuid_of(7) + "'}}\nspec: 7\nstatus: []\n");
    start();
    CHECK(endpoints() == Names{"10.1.0.1:8080/"});
    CHECK(served(7) == "nobody");
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("Pod shop/odd: ") != std::string::npos);
  }
}
