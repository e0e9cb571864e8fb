// Port 15010 of a sidecar: Envoy's statistics for Prometheus, and nothing else of its admin
// interface. Parts of the bootstrap, equal for all proxies.
#pragma once

#include <string>

namespace osm::inline v1::inject {

inline constexpr const char* kMetricsListener = "inbound-prometheus-listener";

std::string metrics_listener();  // YAML, an item of static_resources.listeners
std::string metrics_cluster();   // YAML, an item of static_resources.clusters: the admin interface

}  // namespace osm::inline v1::inject
