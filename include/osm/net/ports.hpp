// The HTTP ports of a control plane and their bounds. The descriptors that proxies leave to them
// follow from these numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "osm/net/http_server.hpp"

namespace osm::inline v1::net {

// Bounds of one port. `tools.chart` multiplies the numbers below and compares the sums with the
// memory limits of the chart.
struct PortBounds {
  std::size_t connections = 0;
  std::uint64_t body = 0;    // bytes of one request's body; 0: requests have none
  std::uint64_t bodies = 0;  // bytes of all bodies at once, responses' too

  // A server at `listen` with these bounds.
  HttpServerOptions options(Address listen) const {
    return {.listen = std::move(listen),
            .max_body_bytes = body,
            .max_bodies_bytes = bodies,
            .max_connections = connections};
  }
};

// Health, metrics and version.
inline constexpr PortBounds kMonitorPort{128, 0, 8 << 20};
// The webhooks: an object of 3 MB at most, old and new, and what is around them.
inline constexpr PortBounds kWebhookPort{128, 8 << 20, 32 << 20};
// The admin API for callers with a token.
inline constexpr PortBounds kRemoteAdminPort{128, 1 << 20, 8 << 20};
// Machines that join by a token.
inline constexpr PortBounds kJoinPort{128, 64 << 10, 2 << 20};
// The admin API on a Unix socket: the objects of one `osm apply`.
inline constexpr PortBounds kAdminSocket{128, 8 << 20, 16 << 20};

// ConnectionLimits::reserved_descriptors: these ports', and some for files, and for connections of
// the control plane's own.
inline constexpr std::size_t kReservedDescriptors =
    kMonitorPort.connections + kWebhookPort.connections + kRemoteAdminPort.connections +
    kJoinPort.connections + kAdminSocket.connections + 128;

}  // namespace osm::inline v1::net
