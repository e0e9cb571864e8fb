// Names that a peer's certificate may have: URI SANs under each trust domain, and, while the mesh
// accepts identities of OSM v1.2, its DNS SANs too.
#pragma once

#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/names.hpp"
#include "osm/ids.hpp"

namespace osm::inline v1::translate {

struct PeerNames {
  std::vector<TrustDomain> domains;
  bool osm_v1 = false;
};

// Names at handshakes, and on open connections: see TrustDomains.
inline PeerNames accepted_names(const model::MeshSnapshot& mesh) {
  return {mesh.accepted_domains, mesh.osm_v1_names};
}
inline PeerNames allowed_names(const model::MeshSnapshot& mesh) {
  return {mesh.allowed_domains, mesh.osm_v1_names};
}

// The DNS SAN that OSM v1.2 gives a workload: "<account>.<namespace>.<trust domain>".
inline std::string osm_v1_name(const TrustDomain& domain, const ServiceIdentity& account) {
  return model::service_common_name(domain, account).str();
}

}  // namespace osm::inline v1::translate
