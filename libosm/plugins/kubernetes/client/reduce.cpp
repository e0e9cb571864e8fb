#include "kubernetes/client/reduce.hpp"

#include <boost/json.hpp>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "kubernetes/client/resources.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// Null if there is no such map.
json::object* map_of(json::object& map, std::string_view name) {
  json::value* value = map.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

using Names = std::initializer_list<std::string_view>;

// The existing members of `map` with these names.
json::object pick(const json::object& map, Names names) {
  json::object out;
  for (const std::string_view name : names)
    if (const json::value* value = map.if_contains(name); value != nullptr && !value->is_null())
      out.emplace(name, *value);
  return out;
}

// Keeps these members of each element of the list `map[name]`.
void pick_each(json::object& out, const json::object& map, std::string_view name, Names names) {
  if (member(map, name) == nullptr) return;
  json::array picked;
  for (const json::value& element : list_at(map, name))
    if (element.is_object()) picked.push_back(pick(element.get_object(), names));
  out.emplace(name, std::move(picked));
}

void keep_annotations(json::object& metadata, std::string_view prefix) {
  json::object* annotations = map_of(metadata, "annotations");
  if (annotations == nullptr) return;
  json::object kept;
  for (auto& [name, value] : *annotations)
    if (std::string_view(name).starts_with(prefix)) kept.emplace(name, std::move(value));
  if (kept.empty()) {
    metadata.erase("annotations");
  } else {
    *annotations = std::move(kept);
  }
}

json::object secret_volumes(const json::object& spec) {
  json::array kept;
  for (const json::value& volume : list_at(spec, "volumes")) {
    if (member(volume, "secret") == nullptr) continue;
    json::object one = pick(volume.get_object(), {"name"});
    one.emplace("secret", pick(map_at(volume, "secret"), {"secretName"}));
    kept.push_back(std::move(one));
  }
  return kept.empty() ? json::object() : json::object{{"volumes", std::move(kept)}};
}

void reduce_pod(json::object& pod) {
  if (json::object* metadata = map_of(pod, "metadata")) {
    *metadata = pick(*metadata, {"name", "namespace", "uid", "labels", "annotations",
                                 "creationTimestamp", "deletionTimestamp", "ownerReferences"});
    keep_annotations(*metadata, "openservicemesh.io/");
  }
  if (json::object* spec = map_of(pod, "spec")) {
    json::object kept =
        pick(*spec, {"serviceAccountName", "nodeName", "hostNetwork", "hostname", "subdomain"});
    for (const std::string_view containers : {"initContainers", "containers"})
      pick_each(kept, *spec, containers, {"name", "ports", "restartPolicy"});
    for (auto& [name, value] : secret_volumes(*spec)) kept.emplace(name, std::move(value));
    *spec = std::move(kept);
  }
  if (json::object* status = map_of(pod, "status")) {
    json::object kept = pick(*status, {"phase", "podIP", "podIPs"});
    json::array ready;
    for (const json::value& condition : list_at(*status, "conditions"))
      if (text_at(condition, "type") == "Ready")
        ready.push_back(pick(condition.get_object(), {"type", "status"}));
    if (!ready.empty()) kept.emplace("conditions", std::move(ready));
    *status = std::move(kept);
  }
}

// A Node's status changes every few minutes; its kubelet's version with an upgrade.
void reduce_node(json::object& node) {
  const std::string version = text_at(map_at(map_at(node, "status"), "nodeInfo"), "kubeletVersion");
  json::object kept = pick(map_at(node, "metadata"), {"name"});
  node = {{"metadata", std::move(kept)}, {"status", {{"nodeInfo", {{"kubeletVersion", version}}}}}};
}

// Drop annotations: they contain the time of the last change, which is no change itself.
void reduce_slice(json::object& slice) {
  if (json::object* metadata = map_of(slice, "metadata"))
    *metadata = pick(*metadata, {"name", "namespace", "uid", "labels", "ownerReferences",
                                 "creationTimestamp", "deletionTimestamp"});
}

// A map of strings, at most what metadata allows.
std::map<std::string, std::string> strings_of(const json::object& metadata, std::string_view name) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : map_at(metadata, name))
    if (value.is_string()) out.emplace(key, std::string(value.get_string()));
  return out;
}

void drop_noise(json::object& metadata) {
  for (const std::string_view name : {"managedFields", "selfLink"}) metadata.erase(name);
  if (json::object* annotations = map_of(metadata, "annotations")) {
    annotations->erase("kubectl.kubernetes.io/last-applied-configuration");
    if (annotations->empty()) metadata.erase("annotations");
  }
}

// "2026-11-29T02:30:00Z" → 20261129023000: ordered as the times are. 0: it is no such time.
std::uint64_t order_of(std::string_view time) {
  constexpr std::size_t kDigits = 14;  // to the second
  std::string digits;
  for (const char c : time)
    if (c >= '0' && c <= '9' && digits.size() < kDigits) digits += c;
  return digits.size() == kDigits ? number_of<std::uint64_t>(digits).value_or(0) : 0;
}

std::shared_ptr<Object> made_of(const Resource& resource, json::object kept,
                                const std::string& server) {
  auto out = std::make_shared<Object>();
  const json::object& metadata = map_at(kept, "metadata");
  out->key = {resource.group_kind(), text_at(metadata, "namespace"), text_at(metadata, "name")};
  out->api_version = resource.api_version();
  out->labels = strings_of(metadata, "labels");
  out->annotations = strings_of(metadata, "annotations");
  out->created = {order_of(text_at(metadata, "creationTimestamp")), text_at(metadata, "uid")};
  out->source.path = server + resource.path(out->key.ns, out->key.name);
  out->document = std::make_shared<const json::value>(std::move(kept));
  return out;
}

}  // namespace

std::shared_ptr<const Object> reduce(const Resource& resource, json::object object,
                                     const std::string& server) {
  if (json::object* metadata = map_of(object, "metadata")) {
    metadata->erase("resourceVersion");
    drop_noise(*metadata);
  }
  if (resource == kPods) {
    reduce_pod(object);
  } else if (resource == kNodes) {
    reduce_node(object);
  } else {
    object.erase("status");
    if (resource == kEndpointSlices) reduce_slice(object);
  }
  return made_of(resource, std::move(object), server);
}

std::shared_ptr<const Object> reduce_to_metadata(const Resource& resource, json::object object,
                                                 const std::string& server) {
  json::object kept;
  std::string version;
  if (json::object* metadata = map_of(object, "metadata")) {
    drop_noise(*metadata);
    version = text_at(*metadata, "resourceVersion");
    kept["metadata"] = std::move(*metadata);
  }
  auto out = made_of(resource, std::move(kept), server);
  out->resource_version = std::move(version);
  return out;
}

}  // namespace osm::inline v1::kubernetes
