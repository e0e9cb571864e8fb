#include "synthetic_cluster.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <boost/json.hpp>
#include <initializer_list>

namespace osm::bench {
namespace {

namespace json = boost::json;

constexpr int kNamespaces = 20;
constexpr const char* kCreated = "2026-01-05T09:12:44Z";

std::string namespace_name(int service) { return fmt::format("team-{}", service % kNamespaces); }
std::string service_name(int service) { return fmt::format("orders-api-{}", service); }
std::string pod_name(int pod, int services) {
  return fmt::format("{}-7d9c6b5f4-{:05}", service_name(pod % services), pod);
}
std::string pod_address(int pod) {
  return fmt::format("10.{}.{}.{}", 1 + pod / 62500, pod / 250 % 250, pod % 250 + 1);
}
std::string uid(int kind, int index) {
  return fmt::format("{:08x}-5b1e-4c7a-9d3f-{:012x}", kind, index);
}
std::string heartbeat_time(int heartbeats) {
  return fmt::format("2026-01-05T{:02}:{:02}:{:02}Z", 10 + heartbeats / 3600 % 14,
                     heartbeats / 60 % 60, heartbeats % 60);
}

// The entry of managedFields for a value: its members and, of lists of named things, their names.
json::object fields_of(const json::value& value) {
  json::object fields;
  if (const json::object* map = value.if_object()) {
    for (const auto& [key, member] : *map) fields["f:" + std::string(key)] = fields_of(member);
  } else if (const json::array* list = value.if_array()) {
    for (const json::value& item : *list) {
      if (!item.is_object()) continue;
      for (const char* key : {"name", "type", "mountPath", "containerPort", "ip"}) {
        const json::value* named = item.get_object().if_contains(key);
        if (named == nullptr) continue;
        json::object entry = fields_of(item);
        entry["."] = json::object();
        fields["k:" + json::serialize(json::object{{key, *named}})] = std::move(entry);
        break;
      }
    }
  }
  return fields;
}

json::object managed_by(const char* manager, const std::string& time, json::object fields) {
  return {{"manager", manager}, {"operation", "Update"},    {"apiVersion", "v1"},
          {"time", time},       {"fieldsType", "FieldsV1"}, {"fieldsV1", std::move(fields)}};
}

json::object probe(const char* path, int port) {
  return {{"httpGet", json::object{{"path", path}, {"port", port}, {"scheme", "HTTP"}}},
          {"initialDelaySeconds", 5},
          {"timeoutSeconds", 1},
          {"periodSeconds", 10},
          {"successThreshold", 1},
          {"failureThreshold", 3}};
}

json::object from_field(const char* name, const char* path) {
  return {{"name", name},
          {"valueFrom",
           json::object{{"fieldRef", json::object{{"apiVersion", "v1"}, {"fieldPath", path}}}}}};
}

json::object container(const char* name, const char* image, const char* port_name, int port) {
  json::array env{from_field("POD_NAME", "metadata.name"), from_field("HOST_IP", "status.hostIP"),
                  from_field("POD_NAMESPACE", "metadata.namespace")};
  for (const char* variable : {"DATABASE_URL", "CACHE_URL", "LOG_LEVEL", "FEATURE_GATES"})
    env.push_back(json::object{{"name", variable}, {"value", "value-of-" + std::string(variable)}});
  const auto amounts = [](const char* cpu, const char* memory) {
    return json::object{{"cpu", cpu}, {"memory", memory}};
  };
  return {
      {"name", name},
      {"image", image},
      {"ports", json::array{json::object{
                    {"name", port_name}, {"containerPort", port}, {"protocol", "TCP"}}}},
      {"env", std::move(env)},
      {"resources",
       json::object{{"limits", amounts("500m", "512Mi")}, {"requests", amounts("100m", "128Mi")}}},
      {"volumeMounts",
       json::array{json::object{{"name", "config"}, {"readOnly", true}, {"mountPath", "/etc/app"}},
                   json::object{{"name", "kube-api-access-x7k2p"},
                                {"readOnly", true},
                                {"mountPath", "/var/run/secrets/kubernetes.io/serviceaccount"}}}},
      {"livenessProbe", probe("/healthz", port)},
      {"readinessProbe", probe("/readyz", port)},
      {"terminationMessagePath", "/dev/termination-log"},
      {"terminationMessagePolicy", "File"},
      {"imagePullPolicy", "IfNotPresent"},
      {"securityContext", json::object{{"runAsUser", 1500}, {"allowPrivilegeEscalation", false}}}};
}

json::object container_status(const char* name, const char* image, int pod, bool ready) {
  return {{"name", name},
          {"state", json::object{{"running", json::object{{"startedAt", kCreated}}}}},
          {"lastState", json::object()},
          {"ready", ready},
          {"restartCount", 0},
          {"image", image},
          {"imageID", fmt::format("{}@sha256:{:064x}", image, 0xabcdef)},
          {"containerID", fmt::format("containerd://{:064x}", pod + 1)},
          {"started", true}};
}

json::object pod_status(int index, const ObjectState& state) {
  json::array conditions;
  for (const char* type :
       {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    const bool holds = state.ready || std::string_view(type).find("Ready") != 0;
    conditions.push_back(json::object{{"type", type},
                                      {"status", holds ? "True" : "False"},
                                      {"lastProbeTime", heartbeat_time(state.heartbeats)},
                                      {"lastTransitionTime", kCreated}});
  }
  const std::string host = fmt::format("192.168.{}.{}", index % 100 / 50, index % 50 + 1);
  return {{"phase", "Running"},
          {"conditions", std::move(conditions)},
          {"hostIP", host},
          {"hostIPs", json::array{json::object{{"ip", host}}}},
          {"podIP", pod_address(index)},
          {"podIPs", json::array{json::object{{"ip", pod_address(index)}}}},
          {"startTime", kCreated},
          {"initContainerStatuses",
           json::array{container_status("osm-init", "registry.example.org/init:1", index, true)}},
          {"containerStatuses",
           json::array{container_status("app", "registry.example.org/app:1", index, state.ready),
                       container_status("envoy", "registry.example.org/envoy:1", index, true)}},
          {"qosClass", "Burstable"}};
}

json::object pod_spec(int index, const std::string& account, const std::string& uuid) {
  const auto secret = [](const std::string& name) {
    return json::object{{"secretName", name}, {"defaultMode", 420}};
  };
  json::object init = container("osm-init", "registry.example.org/init:1", "none", 1);
  json::object sidecar = container("envoy", "registry.example.org/envoy:1", "proxy-admin", 15000);
  for (const char* field : {"env", "livenessProbe", "readinessProbe"}) {
    init.erase(field);
    sidecar.erase(field);
  }
  init.erase("ports");
  return {
      {"volumes",
       json::array{json::object{{"name", "config"}, {"secret", secret("app-config")}},
                   json::object{{"name", "envoy-bootstrap-config-volume"},
                                {"secret", secret("envoy-bootstrap-config-" + uuid)}},
                   json::object{{"name", "kube-api-access-x7k2p"}, {"emptyDir", json::object()}}}},
      {"initContainers", json::array{std::move(init)}},
      {"containers", json::array{container("app", "registry.example.org/app:1", "http", 8080),
                                 std::move(sidecar)}},
      {"restartPolicy", "Always"},
      {"terminationGracePeriodSeconds", 30},
      {"dnsPolicy", "ClusterFirst"},
      {"serviceAccountName", account},
      {"serviceAccount", account},
      {"nodeName", fmt::format("node-{}", index % 100)},
      {"securityContext", json::object()},
      {"schedulerName", "default-scheduler"},
      {"tolerations", json::array{json::object{{"key", "node.kubernetes.io/not-ready"},
                                               {"operator", "Exists"},
                                               {"effect", "NoExecute"},
                                               {"tolerationSeconds", 300}}}},
      {"priority", 0},
      {"enableServiceLinks", true},
      {"preemptionPolicy", "PreemptLowerPriority"}};
}

json::object metadata(const std::string& ns, const std::string& name, int kind, int index,
                      const ObjectState& state, json::object labels) {
  json::object out{{"name", name},
                   {"uid", uid(kind, index)},
                   {"resourceVersion", std::to_string(state.version)},
                   {"creationTimestamp", kCreated},
                   {"labels", std::move(labels)}};
  if (!ns.empty()) out["namespace"] = ns;
  return out;
}

// `part` is "spec" or another member beside metadata.
json::object whole(const char* api_version, const char* kind, json::object metadata,
                   const char* part, json::value content) {
  json::object object{{"apiVersion", api_version}, {"kind", kind}};
  metadata["managedFields"] = json::array{
      managed_by("kube-controller-manager", kCreated,
                 {{"f:metadata", fields_of(json::object{{"labels", metadata["labels"]}})},
                  {"f:" + std::string(part), fields_of(content)}})};
  object["metadata"] = std::move(metadata);
  object[part] = std::move(content);
  return object;
}

json::object account_reference(int service) {
  return {{"kind", "ServiceAccount"},
          {"name", service_name(service)},
          {"namespace", namespace_name(service)}};
}

}  // namespace

std::string ClusterSize::name() const {
  return fmt::format("cluster-{}x{}x{}", services, pods, policies);
}

int SyntheticCluster::count(std::string_view plural) const {
  if (plural == "namespaces") return kNamespaces;
  if (plural == "pods") return size_.pods;
  if (plural == "traffictargets" || plural == "httproutegroups") return size_.policies / 2;
  if (plural == "services" || plural == "serviceaccounts" || plural == "endpointslices")
    return size_.services;
  return 0;
}

json::object SyntheticCluster::object(std::string_view plural, int index,
                                      const ObjectState& state) const {
  if (plural == "pods") return pod(index, state);
  if (plural == "endpointslices") return slice(index, state);
  const std::string ns = namespace_name(index);
  const std::string name = service_name(index);
  const auto about = [&](int kind) {
    return metadata(ns, name, kind, index, state, {{"app", name}, {"team", ns}});
  };
  if (plural == "namespaces")
    return whole("v1", "Namespace",
                 metadata("", ns, 1, index, state, {{"openservicemesh.io/monitored-by", "osm"}}),
                 "spec", json::object{{"finalizers", json::array{"kubernetes"}}});
  if (plural == "serviceaccounts")
    return whole("v1", "ServiceAccount", about(2), "secrets",
                 json::array{json::object{{"name", name + "-token"}}});
  if (plural == "services") {
    const std::string address = fmt::format("10.96.{}.{}", index / 250, index % 250 + 1);
    return whole(
        "v1", "Service", about(3), "spec",
        json::object{
            {"selector", json::object{{"app", name}}},
            {"clusterIP", address},
            {"clusterIPs", json::array{address}},
            {"type", "ClusterIP"},
            {"sessionAffinity", "None"},
            {"ports",
             json::array{json::object{
                 {"name", "http"}, {"protocol", "TCP"}, {"port", 80}, {"targetPort", 8080}}}}});
  }
  if (plural == "httproutegroups")
    return whole(
        "specs.smi-spec.io/v1alpha4", "HTTPRouteGroup", about(4), "spec",
        json::object{{"matches", json::array{json::object{{"name", "read"},
                                                          {"pathRegex", "/orders/.*"},
                                                          {"methods", json::array{"GET"}}}}}});
  // A TrafficTarget: the Service before, within the same namespace, may call.
  const int caller = index >= kNamespaces ? index - kNamespaces : index;
  return whole(
      "access.smi-spec.io/v1alpha3", "TrafficTarget", about(5), "spec",
      json::object{{"destination", account_reference(index)},
                   {"sources", json::array{account_reference(caller)}},
                   {"rules", json::array{json::object{{"kind", "HTTPRouteGroup"},
                                                      {"name", name},
                                                      {"matches", json::array{"read"}}}}}});
}

json::object SyntheticCluster::pod(int index, const ObjectState& state) const {
  const int service = index % size_.services;
  const std::string account = service_name(service);
  const std::string uuid = uid(6, index);
  json::object about =
      metadata(namespace_name(service), pod_name(index, size_.services), 7, index, state,
               {{"app", state.moved ? "nobody" : account},
                {"pod-template-hash", "7d9c6b5f4"},
                {"release", fmt::format("r{}", state.labels)},
                {"osm-proxy-uuid", uuid}});
  about["generateName"] = account + "-7d9c6b5f4-";
  about["annotations"] = json::object{{"openservicemesh.io/sidecar-injection", "enabled"},
                                      {"prometheus.io/scrape", "true"},
                                      {"prometheus.io/port", "15010"}};
  about["ownerReferences"] = json::array{json::object{{"apiVersion", "apps/v1"},
                                                      {"kind", "ReplicaSet"},
                                                      {"name", account + "-7d9c6b5f4"},
                                                      {"uid", uid(8, service)},
                                                      {"controller", true},
                                                      {"blockOwnerDeletion", true}}};
  json::object object =
      whole("v1", "Pod", std::move(about), "spec", pod_spec(index, account, uuid));
  object["status"] = pod_status(index, state);
  json::array& managers = object["metadata"].get_object()["managedFields"].get_array();
  managers.push_back(managed_by("kubelet", heartbeat_time(state.heartbeats),
                                {{"f:status", fields_of(object["status"])}}));
  managers.back().get_object()["subresource"] = "status";
  return object;
}

json::object SyntheticCluster::slice(int index, const ObjectState& state) const {
  const std::string ns = namespace_name(index);
  json::array endpoints;
  for (int pod = index; pod < size_.pods; pod += size_.services) {
    const bool ready = state.ready || pod != index;
    endpoints.push_back(json::object{
        {"addresses", json::array{pod_address(pod)}},
        {"conditions", json::object{{"ready", ready}, {"serving", ready}, {"terminating", false}}},
        {"nodeName", fmt::format("node-{}", pod % 100)},
        {"targetRef", json::object{{"kind", "Pod"},
                                   {"namespace", ns},
                                   {"name", pod_name(pod, size_.services)},
                                   {"uid", uid(7, pod)}}}});
  }
  json::object object = whole("discovery.k8s.io/v1", "EndpointSlice",
                              metadata(ns, service_name(index) + "-b2x4q", 9, index, state,
                                       {{"kubernetes.io/service-name", service_name(index)}}),
                              "endpoints", std::move(endpoints));
  object["addressType"] = "IPv4";
  object["ports"] =
      json::array{json::object{{"name", "http"}, {"protocol", "TCP"}, {"port", 8080}}};
  return object;
}

}  // namespace osm::bench
