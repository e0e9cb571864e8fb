// Pods and EndpointSlices as an API server has them, written shortly for a store in memory.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::testing {

struct PodSpec {
  std::string name;
  std::string uuid;  // empty: no sidecar
  std::string address = "10.1.0.1";
  std::string labels = "app: books";
  std::string account = "books";
  std::string created = "2026-01-01T00:00:00Z";
  std::string ns = "shop";
  std::string phase = "Running";
  std::string secret{};  // empty: the one that belongs to `uuid`
  std::string ports = "{name: web, containerPort: 8080}";
  std::string address6{};
};

// The UUID that ends in `n`.
inline std::string uuid_of(int n) {
  const std::string digits = std::to_string(n);
  return "00000000-0000-4000-8000-" + std::string(12 - digits.size(), '0') + digits;
}

inline std::string pod_yaml(const PodSpec& pod) {
  const std::string secret = pod.secret.empty() ? "envoy-bootstrap-config-" + pod.uuid : pod.secret;
  return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + pod.name + "\n  namespace: " + pod.ns +
         "\n  uid: uid-" + pod.name + "\n  creationTimestamp: '" + pod.created + "'\n  labels: {" +
         pod.labels + (pod.uuid.empty() ? "" : ", osm-proxy-uuid: '" + pod.uuid + "'") +
         "}\nspec:\n  serviceAccountName: " + pod.account +
         "\n  volumes: [{name: tmp, emptyDir: {}}, {name: envoy, secret: {secretName: " + secret +
         "}}]\n  containers: [{name: app, ports: [" + pod.ports +
         "]}, {name: envoy}]\nstatus:\n  phase: " + pod.phase + "\n  podIP: '" + pod.address +
         "'\n  podIPs: [" + (pod.address6.empty() ? "" : "{ip: '" + pod.address6 + "'}, ") +
         (pod.address.empty() ? "" : "{ip: '" + pod.address + "'}") + "]\n---\n";
}

// One endpoint of a slice, as YAML; `more` are further fields.
inline std::string endpoint_yaml(const std::string& address, const std::string& pod,
                                 const std::string& conditions = "ready: true",
                                 const std::string& more = "") {
  return "{addresses: ['" + address + "'], conditions: {" + conditions + "}" +
         (pod.empty() ? ""
                      : ", targetRef: {kind: Pod, namespace: shop, name: " + pod + ", uid: uid-" +
                            pod + "}") +
         more + "}";
}

struct SliceSpec {
  std::string name;
  std::string service;
  std::vector<std::string> endpoints;
  std::string ports = "{name: '', port: 8080, protocol: TCP}";
  std::string type = "IPv4";
  std::string ns = "shop";
};

inline std::string slice_yaml(const SliceSpec& slice) {
  std::string endpoints;
  for (const std::string& endpoint : slice.endpoints)
    endpoints += (endpoints.empty() ? "" : ", ") + endpoint;
  return "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: " + slice.name +
         ", namespace: " + slice.ns + ", labels: {kubernetes.io/service-name: " + slice.service +
         "}}\naddressType: " + slice.type + "\nports: [" + slice.ports + "]\nendpoints: [" +
         endpoints + "]\n---\n";
}

// An object as a store has it.
inline Object object_of(const boost::json::object& root) {
  const auto text = [](const boost::json::value& value) {
    return boost::json::value_to<std::string>(value);
  };
  const boost::json::object& metadata = root.at("metadata").as_object();
  Object object;
  object.api_version = text(root.at("apiVersion"));
  const auto slash = object.api_version.find('/');
  object.key.group = slash == std::string::npos ? "" : object.api_version.substr(0, slash);
  object.key.kind = text(root.at("kind"));
  object.key.name = text(metadata.at("name"));
  if (const auto* ns = metadata.if_contains("namespace")) object.key.ns = text(*ns);
  if (const auto* labels = metadata.if_contains("labels"))
    for (const auto& [key, value] : labels->as_object()) object.labels[key] = text(value);
  object.document = std::make_shared<const boost::json::value>(root);
  return object;
}

// Puts the objects of a text of YAML documents, of kinds that only an API server has, too.
// Result: false when it cannot be read; nothing is put then.
inline bool put_objects(MemoryObjectStore& store, std::string_view yaml) {
  std::vector<Object> objects;
  for (const spec::YamlResult& result : spec::parse_yaml(yaml)) {
    const auto* document = std::get_if<spec::YamlDocument>(&result);
    if (document == nullptr) return false;
    objects.push_back(object_of(document->value.as_object()));
  }
  for (Object& object : objects) store.put(std::move(object));
  return true;
}

}  // namespace osm::inline v1::testing
