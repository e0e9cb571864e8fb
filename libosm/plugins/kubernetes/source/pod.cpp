#include "kubernetes/source/pod.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPorts = 1024;  // limit per object (docs/adr/0019)

bool has_ended(const json::object& status) {
  const std::string phase = text_at(status, "phase");
  return phase == "Succeeded" || phase == "Failed";
}

// `status.podIPs` repeats `status.podIP`; old clusters have only the latter.
std::vector<std::string> addresses_of(const json::object& status) {
  std::vector<std::string> addresses;
  for (const json::value& entry : list_at(status, "podIPs"))
    addresses.push_back(text_at(entry, "ip"));
  if (addresses.empty()) addresses.push_back(text_at(status, "podIP"));
  std::erase_if(addresses, [](const std::string& address) {
    return !model::is_ipv4(address) && !model::is_ipv6(address);
  });
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return model::is_ipv4(address); });
  return addresses;
}

void add_ports(const json::value& container, std::map<std::string, Port>& ports) {
  for (const json::value& entry : list_at(container, "ports")) {
    const std::string name = text_at(entry, "name");
    const auto port = port_at(entry, "containerPort");
    if (name.empty() || !port || !is_tcp(entry) || ports.size() >= kMaxPorts) continue;
    ports.emplace(name, *port);  // like a Service: the first container's
  }
}

std::map<std::string, Port> ports_of(const json::object& spec) {
  std::map<std::string, Port> ports;
  for (const json::value& container : list_at(spec, "containers")) add_ports(container, ports);
  // An init container that restarts while the pod lives is a sidecar, and may serve.
  for (const json::value& container : list_at(spec, "initContainers"))
    if (text_at(container, "restartPolicy") == "Always") add_ports(container, ports);
  return ports;
}

DecodedPod refused(const Object& object, std::string field, std::string cause) {
  return {std::nullopt,
          Problem{ErrorCode::kInvalidField, object.key, "", 0, std::move(field), std::move(cause)}};
}

}  // namespace

std::string bootstrap_secret(const ProxyId& proxy_id) {
  return std::string(kBootstrapSecretPrefix) + proxy_id.str();
}

bool mounts_secret(const json::object& spec, const std::string& secret) {
  const json::array& volumes = list_at(spec, "volumes");
  return std::any_of(volumes.begin(), volumes.end(), [&](const json::value& volume) {
    return text_at(map_at(volume, "secret"), "secretName") == secret;
  });
}

DecodedPod decode_pod(const Object& object) {
  const auto label = object.labels.find(kProxyUuidLabel);
  if (label == object.labels.end()) return {};
  const json::value& root = *object.document;
  const json::object& spec = map_at(root, "spec");
  const json::object& status = map_at(root, "status");
  if (has_ended(status)) return {};
  if (!is_uuid(label->second))
    return refused(object, std::string("metadata.labels.") + kProxyUuidLabel,
                   "is no UUID in lower case, so its proxy is not served; leave this label to the "
                   "injector and create the pod anew");

  Pod pod;
  pod.name = {object.key.ns, object.key.name};
  pod.uid = text_at(map_at(root, "metadata"), "uid");
  pod.created = text_at(map_at(root, "metadata"), "creationTimestamp");
  pod.labels = object.labels;
  // Never empty on a server: admission writes "default". A pod without an account has no identity.
  pod.account = {object.key.ns, text_at(spec, "serviceAccountName")};
  if (!is_dns_label(pod.account.name))
    return refused(object, "spec.serviceAccountName",
                   "an account of the mesh is a DNS label: lower-case letters, digits and '-', at "
                   "most 63; run the pod as another");
  pod.proxy_id = ProxyId(label->second);
  pod.mounts_bootstrap = mounts_secret(spec, bootstrap_secret(pod.proxy_id));
  pod.addresses = addresses_of(status);
  pod.ports = ports_of(spec);
  return {std::move(pod), std::nullopt};
}

bool is_tcp(const boost::json::value& port) {
  const std::string protocol = text_at(port, "protocol");
  return protocol.empty() || protocol == "TCP";
}

}  // namespace osm::inline v1::kubernetes
