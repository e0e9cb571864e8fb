#include "kubernetes/source/endpoint_set.hpp"

#include <utility>

#include "kubernetes/client/object_json.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kServiceNameLabel = "kubernetes.io/service-name";

void read_target(const json::value& endpoint, const std::string& ns, ListedEndpoint& out) {
  const json::value& target = map_at(endpoint, "targetRef");
  if (text_at(target, "kind") != "Pod") return;
  const std::string target_ns = text_at(target, "namespace");
  if (!target_ns.empty() && target_ns != ns) return;
  out.pod = text_at(target, "name");
  out.pod_uid = text_at(target, "uid");
}

std::vector<ListedPort> ports_of(const json::value& map) {
  std::vector<ListedPort> ports;
  for (const json::value& entry : list_at(map, "ports"))
    if (const auto port = port_at(entry, "port"); port && is_tcp(entry))
      ports.push_back({text_at(entry, "name"), *port});
  return ports;
}

EndpointSubset slice_of(const json::value& root, const std::string& ns) {
  EndpointSubset subset{ports_of(root), {}};
  for (const json::value& entry : list_at(root, "endpoints")) {
    const json::array& addresses = list_at(entry, "addresses");
    // The API gives no meaning to any address but the first.
    const auto* address = addresses.empty() ? nullptr : addresses.front().if_string();
    if (address == nullptr) continue;
    ListedEndpoint& out = subset.endpoints.emplace_back();
    out.address.assign(address->data(), address->size());
    const json::value& conditions = map_at(entry, "conditions");
    out.ready = bool_at(conditions, "ready").value_or(true);
    out.serving = bool_at(conditions, "serving").value_or(out.ready);
    out.terminating = bool_at(conditions, "terminating").value_or(false);
    if (std::string zone = text_at(entry, "zone"); !zone.empty()) out.zone = std::move(zone);
    read_target(entry, ns, out);
  }
  return subset;
}

EndpointSubset subset_of(const json::value& map, const std::string& ns) {
  EndpointSubset subset{ports_of(map), {}};
  for (const bool ready : {true, false}) {
    for (const json::value& entry : list_at(map, ready ? "addresses" : "notReadyAddresses")) {
      ListedEndpoint& out = subset.endpoints.emplace_back();
      out.address = text_at(entry, "ip");
      out.ready = out.serving = ready;
      read_target(entry, ns, out);
    }
  }
  return subset;
}

}  // namespace

EndpointSet decode_endpoint_set(const Object& object) {
  EndpointSet out;
  boost::system::error_code fault;
  const json::value root = json::parse(object.json, fault);
  if (fault) return out;
  if (object.key.kind == kEndpointsKind) {
    out.service = object.key.name;
    for (const json::value& subset : list_at(root, "subsets"))
      out.subsets.push_back(subset_of(subset, object.key.ns));
    return out;
  }
  const auto service = object.labels.find(kServiceNameLabel);
  if (service == object.labels.end()) return out;
  out.service = service->second;
  out.subsets.push_back(slice_of(root, object.key.ns));
  return out;
}

}  // namespace osm::inline v1::kubernetes
