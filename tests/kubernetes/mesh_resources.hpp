// The API server's names of mesh kinds, for tests that write such objects.
#pragma once

#include "kubernetes/client/resources.hpp"

namespace osm::kubernetes {

inline Resource mesh_resource(const GroupKind& name) {
  return resource_of(*spec::find_kind(spec::mesh_kinds(), name));
}

inline const Resource kTrafficTargets = mesh_resource(kinds::kTrafficTarget);
inline const Resource kTcpRoutes = mesh_resource(kinds::kTcpRoute);
inline const Resource kTrafficSplits = mesh_resource(kinds::kTrafficSplit);

}  // namespace osm::kubernetes
