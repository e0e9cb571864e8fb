#include "mesh_source.hpp"

#include "directory_source.hpp"
#include "kubernetes_source.hpp"

namespace osm::controller {

Result<std::unique_ptr<MeshSource>> make_mesh_source(const MeshSourceOptions& with) {
  return with.options.on_kubernetes() ? make_kubernetes_source(with) : make_directory_source(with);
}

}  // namespace osm::controller
