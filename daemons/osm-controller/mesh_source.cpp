#include "mesh_source.hpp"

#include "directory_source.hpp"
#include "kubernetes_source.hpp"

namespace osm::controller {

Result<std::unique_ptr<MeshSource>> make_mesh_source(const MeshSurroundings& surroundings) {
  return surroundings.options.on_kubernetes() ? make_kubernetes_source(surroundings)
                                              : make_directory_source(surroundings);
}

}  // namespace osm::controller
