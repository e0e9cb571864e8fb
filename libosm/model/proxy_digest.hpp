// The digest that stands for a proxy in texts between replicas.
#pragma once

#include <cstdint>

#include "base/digest.hpp"
#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::model {

inline Digest digest_of(const ProxyKey& proxy) {
  DigestBuilder digest;
  digest.add(proxy.ns).add(proxy.id.str()).add(static_cast<std::uint64_t>(proxy.kind));
  return digest.finish();
}

}  // namespace osm::inline v1::model
