// Resolves Egress objects into the client policies of identities. Pure.
#pragma once

#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/spec_tables.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Adds the grants of each identity to `clients`, which stay ordered by identity. A grant never
// takes away what another one allows. Result: Egress objects without effect, in full or in part:
// MeshConfig turns them off or lets everything pass, an object that they name is missing, a host or
// an address belongs to a Service of the mesh, or another Egress of the same source, which comes
// first by name, excludes them. A headless Service of another namespace takes no address from an
// Egress. With global egress the grants are there too, though they open nothing: proxies keep their
// clusters.
std::vector<Problem> resolve_egress(const SpecSnapshot& objects,
                                    const Table<model::ServiceEntry>& services,
                                    std::vector<model::ClientPolicy>& clients);

}  // namespace osm::inline v1::catalog
