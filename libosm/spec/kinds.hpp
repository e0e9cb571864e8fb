// The kinds of objects a mesh is written in.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osm::spec {

inline constexpr std::string_view kNamespace = "Namespace";
inline constexpr std::string_view kService = "Service";
inline constexpr std::string_view kServiceAccount = "ServiceAccount";
inline constexpr std::string_view kTrafficTarget = "TrafficTarget";
inline constexpr std::string_view kHttpRouteGroup = "HTTPRouteGroup";
inline constexpr std::string_view kTcpRoute = "TCPRoute";
inline constexpr std::string_view kTrafficSplit = "TrafficSplit";
inline constexpr std::string_view kMeshConfig = "MeshConfig";

// Why an object of this apiVersion and kind is not understood, with what is; nullopt: it is.
std::optional<std::string> why_unknown_kind(std::string_view api_version, std::string_view kind);

}  // namespace osm::spec
