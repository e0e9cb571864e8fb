#pragma once

#include "mesh_source.hpp"

namespace osm::controller {

// A directory of YAML, and the VirtualMachines in it.
Result<std::unique_ptr<MeshSource>> make_directory_source(const MeshSourceOptions& with);

}  // namespace osm::controller
