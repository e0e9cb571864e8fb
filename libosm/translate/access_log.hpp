// Access log: one JSON line on the proxy's standard output per request and per TCP connection.
#pragma once

#include "envoy/config/accesslog/v3/accesslog.pb.h"

namespace osm::inline v1::translate {

enum class Direction { kOutbound, kInbound };

// Log of an HTTP connection manager or a TCP proxy: the keys of the original OSM, and
// `peer_identity`, the URI SAN of the peer of the mutual TLS connection.
envoy::config::accesslog::v3::AccessLog access_log(Direction direction);

// Log of a listener: the same line, only for connections that match no filter chain. Chains log
// their own requests and connections.
envoy::config::accesslog::v3::AccessLog unmatched_access_log(Direction direction);

}  // namespace osm::inline v1::translate
