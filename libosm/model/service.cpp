#include "osm/values/service.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace osm::inline v1 {
namespace {

constexpr auto kProtocols = std::to_array<std::pair<std::string_view, Protocol>>({
    {"tcp-server-first", Protocol::kTcpServerFirst},  // before "tcp", which prefixes it
    {"http", Protocol::kHttp},
    {"tcp", Protocol::kTcp},
    {"grpc", Protocol::kGrpc},
    // Values of appProtocol only: a port's name has no slash.
    // https://kubernetes.io/docs/concepts/services-networking/service/#application-protocol
    {"kubernetes.io/h2c", Protocol::kH2c},
    {"kubernetes.io/ws", Protocol::kHttp},
    {"kubernetes.io/wss", Protocol::kTcp},
});

std::string cluster(const MeshService& service) {
  return service.name.str() + '|' + std::to_string(number(service.target_port));
}

}  // namespace

std::string_view protocol_text(Protocol protocol) {
  for (const auto& [text, value] : kProtocols)
    if (value == protocol) return text;
  return "";
}

std::optional<Protocol> protocol_of(std::string_view app_protocol, std::string_view port_name) {
  if (!app_protocol.empty()) {
    std::string lower(app_protocol);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const auto& [text, value] : kProtocols)
      if (lower == text) return value;
    return std::nullopt;
  }
  // As in OSM v1.2: a name without the dash says nothing, also "tcp".
  for (const auto& [text, value] : kProtocols)
    if (port_name.starts_with(text) && port_name.substr(text.size()).starts_with('-')) return value;
  return Protocol::kHttp;
}

std::string service_fqdn(const ServiceName& name) {
  return name.name + '.' + name.ns + ".svc.cluster.local";
}

std::string MeshService::fqdn() const { return service_fqdn(name); }
ClusterName MeshService::cluster_name() const { return ClusterName(cluster(*this)); }
ClusterName MeshService::local_cluster_name() const {
  return ClusterName(cluster(*this) + "|local");
}

}  // namespace osm::inline v1
