// A cluster as the providers' suite wants it: each service a Service without selector, each of its
// endpoints a pod with a sidecar and an EndpointSlice that names it. Where the objects go is the
// platform's: a store in memory, or a real API server (tests/e2e/kubernetes).
#pragma once

#include <boost/json.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kubernetes/source/pods_yaml.hpp"
#include "memory_platform.hpp"
#include "model/names.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/memory_object_store.hpp"

namespace osm::inline v1::testing {

// The objects that are one service's, by key. A name is the same for the same endpoint.
class ClusterObjects {
 public:
  using Map = std::map<ObjectKey, boost::json::object>;

  static boost::json::object monitored_namespace(const std::string& ns) {
    return {{"apiVersion", "v1"},
            {"kind", "Namespace"},
            {"metadata", {{"name", ns}, {"labels", {{"openservicemesh.io/monitored-by", "osm"}}}}}};
  }

  static Map of(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
    Map out;
    add(service_object(service, endpoints), out);
    std::size_t slice = 0;
    for (const Endpoint& endpoint : endpoints) {
      const std::string pod = pod_name(service, endpoint);
      add(pod_object(pod, endpoint), out);
      add(slice_object(service, endpoint, pod, slice++), out);
    }
    return out;
  }

 private:
  using Json = boost::json::object;
  using List = boost::json::array;

  static void add(Json object, Map& out) {
    const boost::json::object& metadata = object.at("metadata").as_object();
    const auto text = [](const boost::json::value& value) {
      return boost::json::value_to<std::string>(value);
    };
    const std::string kind = text(object.at("kind"));
    const std::string group = kind == "EndpointSlice" ? "discovery.k8s.io" : "";
    ObjectKey key{{group, kind}, text(metadata.at("namespace")), text(metadata.at("name"))};
    out.insert_or_assign(std::move(key), std::move(object));
  }

  static std::string hash_of(const ServiceName& service) {
    return std::to_string(std::hash<ServiceName>{}(service) % 1'000'000'007);
  }

  static std::string pod_name(const ServiceName& service, const Endpoint& endpoint) {
    std::string name = "pod-" + hash_of(service) + '-' + endpoint.address + '-' +
                       std::to_string(std::hash<ServiceIdentity>{}(endpoint.identity) % 1'000'007);
    for (char& c : name)
      if (c == '.' || c == ':') c = '-';
    return name;
  }

  static Json service_object(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
    std::set<std::string> names{"http"};
    for (const Endpoint& endpoint : endpoints) names.insert(endpoint.service_port);
    List ports;
    for (const std::string& name : names)
      ports.push_back(Json{{"name", name}, {"port", 80 + ports.size()}});
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", {{"name", service.name}, {"namespace", service.ns}}},
            {"spec", {{"clusterIP", "None"}, {"ports", ports}}}};
  }

  static Json pod_object(const std::string& name, const Endpoint& endpoint) {
    const ProxyId id =
        model::derived_proxy_id(TrustDomain("cluster.local"), {endpoint.identity.ns, name});
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata",
             {{"name", name},
              {"namespace", endpoint.identity.ns},
              {"labels", {{"osm-proxy-uuid", id.str()}}}}},
            {"spec",
             {{"serviceAccountName", endpoint.identity.name},
              {"containers", List{Json{{"name", "app"}, {"image", "none"}}}},
              {"volumes",
               List{Json{{"name", "envoy-bootstrap-config"},
                         {"secret", {{"secretName", "envoy-bootstrap-config-" + id.str()}}}}}}}},
            {"status",
             {{"phase", "Running"},
              {"podIP", endpoint.address},
              {"podIPs", List{Json{{"ip", endpoint.address}}}}}}};
  }

  static Json slice_object(const ServiceName& service, const Endpoint& endpoint,
                           const std::string& pod, std::size_t index) {
    Json listed{
        {"addresses", List{endpoint.address}},
        {"conditions", {{"ready", endpoint.healthy}}},
        {"targetRef", {{"kind", "Pod"}, {"namespace", endpoint.identity.ns}, {"name", pod}}}};
    if (endpoint.zone) listed["zone"] = *endpoint.zone;
    return {{"apiVersion", "discovery.k8s.io/v1"},
            {"kind", "EndpointSlice"},
            {"metadata",
             {{"name", "slice-" + hash_of(service) + '-' + std::to_string(index)},
              {"namespace", service.ns},
              {"labels", {{"kubernetes.io/service-name", service.name}}}}},
            {"addressType", endpoint.address.find(':') == std::string::npos ? "IPv4" : "IPv6"},
            {"ports", List{Json{{"name", endpoint.service_port}, {"port", number(endpoint.port)}}}},
            {"endpoints", List{listed}}};
  }
};

// The provider together with the MeshSpec it reads Services from.
class PodsWithSpec final : public EndpointsProvider {
 public:
  PodsWithSpec(ObjectStore& store, LogSink& log, MetricsSink& metrics)
      : spec_(spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics})),
        pods_(kubernetes::make_provider(
            {.store = store, .mesh_spec = *spec_, .log = log, .metrics = metrics})) {}

  std::string id() const override { return pods_->id(); }
  bool has_synced() const override { return pods_->has_synced(); }
  bool healthy() const override { return pods_->healthy(); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    return pods_->list_endpoints_for_service(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    return pods_->subscribe(std::move(on_change));
  }

 private:
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<kubernetes::Provider> pods_;
};

// The content of a cluster, shown to its provider when it can be seen.
class PodsPlatform final : public ProviderPlatform {
 public:
  PlatformTraits traits() const override { return {.weights = false}; }

  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    started_ = true;
    store_.set_synced(reachable_);
    store_.put(object_of(ClusterObjects::monitored_namespace("shop")));
    if (reachable_) show_all();
    return std::make_unique<PodsWithSpec>(store_, runtime.log, runtime.metrics);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    content_[service] = endpoints;
    if (started_ && reachable_) show(service, ClusterObjects::of(service, endpoints));
  }
  void remove_service(const ServiceName& service) override {
    content_.erase(service);
    if (started_ && reachable_) show(service, {});
  }
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!started_) return;
    if (!reachable) {
      store_.set_problems({{ErrorCode::kUnavailable, {}, "https://10.96.0.1", 0, "", "no answer"}});
      return;
    }
    show_all();
    store_.set_problems({});
    store_.set_synced(true);
  }

 private:
  void show_all() {
    std::vector<ServiceName> gone;
    for (const auto& [service, keys] : shown_)
      if (!content_.contains(service)) gone.push_back(service);
    for (const ServiceName& service : gone) show(service, {});
    for (const auto& [service, endpoints] : content_)
      show(service, ClusterObjects::of(service, endpoints));
  }
  void show(const ServiceName& service, const ClusterObjects::Map& objects) {
    for (const ObjectKey& key : std::exchange(shown_[service], {}))
      if (!objects.contains(key)) store_.remove(key);
    for (const auto& [key, object] : objects) {
      store_.put(object_of(object));
      shown_[service].insert(key);
    }
    if (objects.empty()) shown_.erase(service);
  }

  MemoryObjectStore store_;
  PlatformContent content_;
  std::map<ServiceName, std::set<ObjectKey>> shown_;
  bool started_ = false;
  bool reachable_ = true;
};

inline std::unique_ptr<ProviderPlatform> make_pods_platform() {
  return std::make_unique<PodsPlatform>();
}

}  // namespace osm::inline v1::testing
