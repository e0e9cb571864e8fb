// Metrics that several sources of this room, or nack_provenance, record.
#pragma once

#include "base/shared_metrics.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::ads {

inline constexpr Counter kNacks{
    "osm_nack_total",
    "Configurations refused by proxies, by xDS type and kind of the object",
    {"type", "object_kind"}};
inline constexpr Counter kProxyMaxConnectionsRejected{
    "osm_proxy_max_connections_rejected",
    "Streams refused because the replica serves maxDataPlaneConnections proxies already"};
inline constexpr Counter kResourcesEncoded{
    "osm_resources_encoded_total", "Resources translated and serialized, by xDS type", {"type"}};
inline constexpr Counter kStreamsRefused{
    "osm_streams_refused_total", "Streams refused, by code", {"code"}};

}  // namespace osm::inline v1::ads
