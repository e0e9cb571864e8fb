// The digests that stand for a proxy, and for what it serves, in texts between replicas.
#pragma once

#include <cstdint>

#include "base/digest.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/proxy_readiness.hpp"

namespace osm::inline v1::model {

inline Digest digest_of(const ProxyKey& proxy) {
  DigestBuilder digest;
  digest.add(proxy.ns).add(proxy.id.str()).add(static_cast<std::uint64_t>(proxy.kind));
  return digest.finish();
}

inline Digest digest_of(const Serving& serving) {
  DigestBuilder digest;
  digest.add(serving.admits);
  for (const MeshService& port : serving.ports)
    digest.add(port.name.ns)
        .add(port.name.name)
        .add(port.port_name)
        .add(static_cast<std::uint64_t>(number(port.port)))
        .add(static_cast<std::uint64_t>(number(port.target_port)))
        .add(static_cast<std::uint64_t>(port.protocol));
  return digest.finish();
}

}  // namespace osm::inline v1::model
