#pragma once

#include "mesh_source.hpp"

namespace osm::controller {

// An API server: its objects, pods and custom resources.
Result<std::unique_ptr<MeshSource>> make_kubernetes_source(const MeshSourceOptions& with);

}  // namespace osm::controller
