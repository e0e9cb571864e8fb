// The cost of Services on the wire in each variant of xDS: real sessions with real content, without
// sockets, and proxies that ask and acknowledge as Envoy does.
#pragma once

#include <cstdint>

#include "osm/values/proxy.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

// Bytes of all responses to all proxies of a mesh of `size`, from the Service's appearance until
// every proxy holds what it should. Deterministic.
std::uint64_t bytes_per_added_service(const MeshSize& size, XdsVariant variant);

// Bytes of all responses to one proxy. Deterministic.
struct OneProxyBytes {
  std::uint64_t first = 0;    // configuration
  std::uint64_t added = 0;    // one Service
  std::uint64_t removed = 0;  // the same Service
};
OneProxyBytes bytes_to_one_proxy(const MeshSize& size, XdsVariant variant);

}  // namespace osm::bench
