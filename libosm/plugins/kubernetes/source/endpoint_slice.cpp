#include "kubernetes/source/endpoint_slice.hpp"

#include <utility>

#include "base/json.hpp"
#include "kubernetes/source/pod.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr const char* kServiceNameLabel = "kubernetes.io/service-name";

void read_target(const json::value& endpoint, const std::string& ns, ListedEndpoint& out) {
  const json::object& target = map_at(endpoint, "targetRef");
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

std::vector<ListedEndpoint> endpoints_of(const json::value& root, const std::string& ns) {
  std::vector<ListedEndpoint> endpoints;
  for (const json::value& entry : list_at(root, "endpoints")) {
    const json::array& addresses = list_at(entry, "addresses");
    // The API defines only the first address.
    const auto* address = addresses.empty() ? nullptr : addresses.front().if_string();
    if (address == nullptr) continue;
    ListedEndpoint& out = endpoints.emplace_back();
    out.address.assign(address->data(), address->size());
    const json::object& conditions = map_at(entry, "conditions");
    out.ready = bool_at(conditions, "ready").value_or(true);
    out.serving = bool_at(conditions, "serving").value_or(out.ready);
    out.terminating = bool_at(conditions, "terminating").value_or(false);
    if (std::string zone = text_at(entry, "zone"); !zone.empty()) out.zone = std::move(zone);
    read_target(entry, ns, out);
  }
  return endpoints;
}

}  // namespace

EndpointSlice decode_slice(const Object& object) {
  const json::value& root = *object.document;
  const auto service = object.labels.find(kServiceNameLabel);
  if (service == object.labels.end()) return {};
  return {service->second, ports_of(root), endpoints_of(root, object.key.ns)};
}

}  // namespace osm::inline v1::kubernetes
