// One JSON line on the proxy's standard output per request, and per TCP connection.
#pragma once

#include "envoy/config/accesslog/v3/accesslog.pb.h"

namespace osm::inline v1::translate {

enum class Direction { kOutbound, kInbound };

// For an HTTP connection manager or a TCP proxy: the keys of the original, and `peer_identity`, the
// URI SAN of whoever is at the other end of the mutual TLS connection.
envoy::config::accesslog::v3::AccessLog access_log(Direction direction);

// For a listener: the same line, only for connections that no filter chain took. Requests and
// accepted connections are logged by their chain, and not twice.
envoy::config::accesslog::v3::AccessLog unmatched_access_log(Direction direction);

}  // namespace osm::inline v1::translate
