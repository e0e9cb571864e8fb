// What a MeshRootCertificate may become, given what it was and the others that are declared
// (docs/adr/0024). Pure; what one object alone shows is its decoder's.
#pragma once

#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::inject {

struct RootCertificateChange {
  const ObjectKey& key;
  const MeshRootCertificate* before;  // null: it is created, or was invalid
  const MeshRootCertificate* after;   // null: it is removed, or is invalid
};

// Why the change is refused; empty: it is not. `declared`: all that there are, itself included.
std::vector<Problem> check_change(const RootCertificateChange& change,
                                  const SharedList<MeshRootCertificate>& declared);

}  // namespace osm::inline v1::inject
