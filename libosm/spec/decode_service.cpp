// v1 Service and ServiceAccount. https://kubernetes.io/docs/concepts/services-networking/service
#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "base/json.hpp"
#include "model/ip_address.hpp"
#include "model/names.hpp"
#include "model/own_ports.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxPortNameBytes = 15;  // RFC 6335
// Each port is a cluster in every proxy that may call the Service; in permissive mode, in all
// proxies.
constexpr std::size_t kMaxServicePorts = 128;

// The fields of Kubernetes' Service. An API server drops others; in files they are mistakes.
constexpr std::string_view kSpecFields[] = {"allocateLoadBalancerNodePorts",
                                            "clusterIP",
                                            "clusterIPs",
                                            "externalIPs",
                                            "externalName",
                                            "externalTrafficPolicy",
                                            "healthCheckNodePort",
                                            "internalTrafficPolicy",
                                            "ipFamilies",
                                            "ipFamilyPolicy",
                                            "loadBalancerClass",
                                            "loadBalancerIP",
                                            "loadBalancerSourceRanges",
                                            "ports",
                                            "publishNotReadyAddresses",
                                            "selector",
                                            "sessionAffinity",
                                            "sessionAffinityConfig",
                                            "trafficDistribution",
                                            "type"};
constexpr std::string_view kPortFields[] = {"appProtocol", "name",     "nodePort",
                                            "port",        "protocol", "targetPort"};

void note_others(const Field& map, std::span<const std::string_view> known) {
  if (!map.value() || !map.value()->is_object()) return;
  for (const auto& [name, field] : map.members())
    if (std::find(known.begin(), known.end(), name) == known.end())
      field.note("a Service has no such field here; it has no effect");
}

// An API server has dropped such fields, and may know more fields than the lists above.
void note_unknown_fields(const Field& root) {
  if (root["metadata"]["uid"].present()) return;
  const Field spec = root["spec"];
  note_others(spec, kSpecFields);
  const Field ports = spec["ports"];
  if (!ports.value() || !ports.value()->is_array()) return;
  for (const Field& port : ports.list()) note_others(port, kPortFields);
}

// A dual-stack Service has one address of each family, of which `clusterIP` is the first.
std::string ipv4_of(const Field& spec) {
  for (const Field& field : spec["clusterIPs"].list())
    if (const auto address = field.text(); address && model::is_ipv4(*address)) return *address;
  return "";
}

void read_cluster_ip(const Field& spec, bool allocates, Service& service) {
  const Field field = spec["clusterIP"];
  std::string address = field.text().value_or("");
  if (const std::string ipv4 = model::is_ipv6(address) ? ipv4_of(spec) : ""; !ipv4.empty())
    address = ipv4;
  if (address == "None") {
    service.headless = true;
  } else if (model::is_unicast_ipv4(address)) {
    service.cluster_ip = address;
  } else if (model::is_ipv4(address)) {
    // Clients' sidecars would take all connections to the port for this Service's.
    field.refuse(std::string(model::kNotUnicast) +
                 "; set an IPv4 address that no other Service has, such as 10.96.0.7, or None for "
                 "a headless Service");
  } else if (!field.present() || (field.value()->is_string() && address.empty())) {
    if (allocates) return;
    field.refuse(
        "required: the controller allocates addresses only with --service-cidr; set an IPv4 "
        "address that no other Service has and clients' names resolve to, or None for a headless "
        "Service");
  } else if (field.value()->is_string()) {
    field.refuse("must be an IPv4 address or None; IPv6 is not supported yet");
  }
}

bool is_port_name(std::string_view name) {
  return is_dns_label(name) && name.size() <= kMaxPortNameBytes &&
         std::any_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

std::variant<Port, std::string> target_port_of(const Field& field, Port fallback) {
  if (!field.present()) return fallback;
  if (const auto* name = field.value()->if_string()) {
    std::string text(name->data(), name->size());
    if (!is_port_name(text))
      field.refuse(
          "must be a number (unquoted) or a port name: at most 15 lower-case letters, digits and "
          "'-', with a letter");
    return text;
  }
  return field.port().value_or(Port{});
}

// Nullopt: refused, or left out because the mesh does not support it.
std::optional<ServicePort> port_of(const Field& field) {
  if (!field.required_map()) return std::nullopt;
  ServicePort port;
  const Field name = field["name"];
  port.name = name.text().value_or("");
  if (!port.name.empty() && !is_dns_label(port.name)) name.refuse(kNotALabel);
  port.port = field["port"].required().port().value_or(Port{});
  port.target_port = target_port_of(field["targetPort"], port.port);

  const std::string transport = field["protocol"].text().value_or("TCP");
  if (transport == "UDP" || transport == "SCTP") {
    field["protocol"].note("the mesh carries TCP only; this port is left out");
    return std::nullopt;
  }
  if (transport != "TCP") field["protocol"].refuse("must be TCP, UDP or SCTP");
  const Field app = field["appProtocol"];
  const auto protocol = protocol_of(app.text().value_or(""), port.name);
  if (!protocol) {
    app.note(
        "the mesh speaks http, grpc, tcp, tcp-server-first, kubernetes.io/h2c, kubernetes.io/ws "
        "and "
        "kubernetes.io/wss; this port is left out, so connections to it are refused",
        ErrorCode::kInvalidField);
    return std::nullopt;
  }
  port.protocol = *protocol;
  return port;
}

// One port of a workload cannot use two protocols, except HTTP and gRPC: the first by port name
// decides.
void drop_conflicting(std::vector<std::pair<ServicePort, Field>>& ports) {
  auto by_name = ports;
  std::sort(by_name.begin(), by_name.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.name, a.first.port) < std::tie(b.first.name, b.first.port);
  });
  std::map<std::variant<Port, std::string>, ServicePort> first;
  for (const auto& [port, field] : by_name) first.emplace(port.target_port, port);
  std::erase_if(ports, [&](const auto& entry) {
    const auto& [port, field] = entry;
    const ServicePort& winner = first.at(port.target_port);
    if (model::can_share_port(winner.protocol, port.protocol)) return false;
    field.note("port \"" + winner.name + "\" already says the same target port speaks " +
                   std::string(protocol_text(winner.protocol)) + ", so this one (" +
                   std::string(protocol_text(port.protocol)) +
                   ") is left out; give both one protocol or different target ports",
               ErrorCode::kConflictingProtocol);
    return true;
  });
}

std::vector<ServicePort> ports_of(const Field& field) {
  std::vector<std::pair<ServicePort, Field>> ports;
  std::set<std::string> names;
  std::set<Port> numbers;
  const auto items = field.list();
  if (items.size() > kMaxServicePorts) {
    field.refuse("has " + std::to_string(items.size()) + " ports, at most " +
                     std::to_string(kMaxServicePorts) + "; split the Service",
                 ErrorCode::kTooLarge);
    return {};
  }
  for (const Field& item : items) {
    // Names are unique over all ports, numbers over those of one transport protocol.
    const std::string name = text_at(*item.value(), "name");
    if (items.size() > 1 && name.empty()) item["name"].refuse("required with several ports");
    if (!name.empty() && !names.insert(name).second)
      item["name"].refuse("two ports have this name");
    auto port = port_of(item);
    if (!port) continue;
    if (number(port->port) != 0 && !numbers.insert(port->port).second)
      item["port"].refuse("two ports have this number");
    ports.emplace_back(*std::move(port), item);
  }
  drop_conflicting(ports);
  std::vector<ServicePort> out;
  for (auto& [port, item] : ports) out.push_back(std::move(port));
  std::sort(out.begin(), out.end(), [](const ServicePort& a, const ServicePort& b) {
    return std::tie(a.port, a.name) < std::tie(b.port, b.name);
  });
  return out;
}

// A mistyped value leaves the default, which is the strictest.
HttpPaths http_paths_of(const Object& object, Findings& findings) {
  const auto found = object.annotations.find("openservicemesh.io/http-paths");
  if (found == object.annotations.end() || found->second == "strict") return HttpPaths::kStrict;
  if (found->second == "normalize") return HttpPaths::kNormalize;
  if (found->second == "unchecked") return HttpPaths::kUnchecked;
  findings.note("metadata.annotations[openservicemesh.io/http-paths]",
                "must be strict, normalize or unchecked; strict is used", ErrorCode::kInvalidField);
  return HttpPaths::kStrict;
}

HeaderNames header_names_of(const Object& object, Findings& findings) {
  const auto found = object.annotations.find("openservicemesh.io/http-header-names");
  if (found == object.annotations.end() || found->second == "strict") return HeaderNames::kStrict;
  if (found->second == "unchecked") return HeaderNames::kUnchecked;
  findings.note("metadata.annotations[openservicemesh.io/http-header-names]",
                "must be strict or unchecked; strict is used", ErrorCode::kInvalidField);
  return HeaderNames::kStrict;
}

// `allocates`: the address may be missing.
Decoded<Service> decoded_service(const Object& object, bool allocates) {
  ObjectReader reader(object, NameRule::kLabel);
  Service service;
  service.name = {object.key.ns, object.key.name};
  service.created = object.created;
  service.assigned = !object.created.uid.empty();  // its API server has checked the address
  service.http_paths = http_paths_of(object, reader.findings());
  service.header_names = header_names_of(object, reader.findings());
  const Field spec = reader.root()["spec"];
  if (spec.required_map()) {
    const std::string type = spec["type"].text().value_or("ClusterIP");
    if (type == "ExternalName") {
      spec["type"].refuse("ExternalName Services cannot be in the mesh: they name no workload");
    } else {
      if (type != "ClusterIP" && type != "NodePort" && type != "LoadBalancer")
        spec["type"].refuse("must be ClusterIP, NodePort or LoadBalancer");
      read_cluster_ip(spec, allocates, service);
    }
    service.selector = spec["selector"].text_map();
    service.ports = ports_of(spec["ports"]);
    note_unknown_fields(reader.root());
  }
  return std::move(reader).finish(std::move(service));
}

}  // namespace

Decoded<Service> decode_service(const Object& object) { return decoded_service(object, false); }

Decoded<Service> decode_unaddressed_service(const Object& object) {
  return decoded_service(object, true);
}

Decoded<ServiceAccount> decode_service_account(const Object& object) {
  // Require a label, although Kubernetes allows dots: the name becomes part of certificates' names.
  ObjectReader reader(object, NameRule::kLabel);
  return std::move(reader).finish(ServiceAccount{object.key.ns, object.key.name});
}

}  // namespace osm::inline v1::spec
