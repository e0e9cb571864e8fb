// Permitted changes of a MeshRootCertificate, given its previous value and the other declared ones
// (docs/adr/0024). Pure; the decoder checks an object by itself.
#pragma once

#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::inject {

struct RootCertificateChange {
  const ObjectKey& key;
  const MeshRootCertificate* before;  // null: new, or invalid before
  const MeshRootCertificate* after;   // null: removed, or invalid now
};

// Reasons to refuse the change; empty: none. `declared`: all existing ones, with this one.
std::vector<Problem> check_change(const RootCertificateChange& change,
                                  const SharedList<MeshRootCertificate>& declared);

}  // namespace osm::inline v1::inject
