// The kinds of objects that describe a mesh.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace osm::inline v1::spec {

inline constexpr std::string_view kNamespace = "Namespace";
inline constexpr std::string_view kService = "Service";
inline constexpr std::string_view kServiceAccount = "ServiceAccount";
inline constexpr std::string_view kTrafficTarget = "TrafficTarget";
inline constexpr std::string_view kHttpRouteGroup = "HTTPRouteGroup";
inline constexpr std::string_view kTcpRoute = "TCPRoute";
inline constexpr std::string_view kTrafficSplit = "TrafficSplit";
inline constexpr std::string_view kMeshConfig = "MeshConfig";
inline constexpr std::string_view kMeshRootCertificate = "MeshRootCertificate";
inline constexpr std::string_view kEgress = "Egress";
inline constexpr std::string_view kIngressBackend = "IngressBackend";
inline constexpr std::string_view kRetry = "Retry";
inline constexpr std::string_view kUpstreamTrafficSetting = "UpstreamTrafficSetting";

// Policies that are checked and stored but have no effect yet; their authors get a problem that
// says so. A kind leaves this list with the first release that supports it.
inline constexpr std::array kUnobeyedKinds{kEgress, kIngressBackend, kRetry,
                                           kUpstreamTrafficSetting};
bool is_unobeyed(std::string_view kind);
// "Egress is checked and stored, but nothing here obeys it yet"
std::string why_unobeyed(std::string_view kind);

// Reason why an object of this apiVersion and kind is not understood, with the accepted ones;
// nullopt: it is understood.
std::optional<std::string> why_unknown_kind(std::string_view api_version, std::string_view kind);

}  // namespace osm::inline v1::spec
