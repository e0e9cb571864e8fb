// Names of the parts of an injected pod. Users, dashboards and the API server's objects depend on
// them.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "osm/ids.hpp"
#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {

inline constexpr std::string_view kEnvoyContainer = "envoy";
inline constexpr std::string_view kInitContainer = "osm-init";
inline constexpr std::string_view kBootstrapVolume = "envoy-bootstrap-config-volume";
inline constexpr std::string_view kBootstrapSecretPrefix = "envoy-bootstrap-config-";
inline constexpr std::string_view kBootstrapDirectory = "/etc/envoy";
inline constexpr std::string_view kProxyUuidLabel = "osm-proxy-uuid";
inline constexpr std::string_view kMetricsPort = "proxy-metrics";  // name of port 15010

inline constexpr std::string_view kMonitoredByLabel = "openservicemesh.io/monitored-by";
inline constexpr std::string_view kInjectionAnnotation = "openservicemesh.io/sidecar-injection";
inline constexpr std::string_view kNativeSidecarAnnotation = "openservicemesh.io/native-sidecar";
inline constexpr std::string_view kMetricsAnnotation = "openservicemesh.io/metrics";
inline constexpr std::string_view kOriginalProbesAnnotation = "openservicemesh.io/original-probes";
inline constexpr std::string_view kOutboundPortsAnnotation =
    "openservicemesh.io/outbound-port-exclusion-list";
inline constexpr std::string_view kInboundPortsAnnotation =
    "openservicemesh.io/inbound-port-exclusion-list";
inline constexpr std::string_view kInboundRangesAnnotation =
    "openservicemesh.io/inbound-ip-range-exclusion-list";
inline constexpr std::string_view kOutboundRangesAnnotation =
    "openservicemesh.io/outbound-ip-range-exclusion-list";
inline constexpr std::string_view kIncludedRangesAnnotation =
    "openservicemesh.io/outbound-ip-range-inclusion-list";
inline constexpr std::string_view kInterfacesAnnotation =
    "openservicemesh.io/network-interface-exclusion-list";

// Ports of the sidecar; no container of its pod can use them.
inline constexpr std::array kSidecarPorts{kAdminPort,  kOutboundPort, kInboundPort, kPrometheusPort,
                                          Port{15901}, Port{15902},   Port{15903},  Port{15904}};

inline std::string bootstrap_secret_name(const ProxyId& proxy) {
  return std::string(kBootstrapSecretPrefix) + proxy.str();
}

}  // namespace osm::inline v1::inject
