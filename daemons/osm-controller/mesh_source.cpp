#include "mesh_source.hpp"

#include <utility>

#include "osm/spec/object_mesh_spec.hpp"

namespace osm::controller {

void MeshSource::read(std::unique_ptr<ObjectStore> store) {
  store_ = std::move(store);
  spec_ = spec::make_mesh_spec({.store = *store_,
                                .mesh_name = options_.mesh_name,
                                .osm_namespace = options_.osm_namespace,
                                .log = runtime_.log,
                                .metrics = runtime_.metrics});
  vms_ = vm::make_vm_provider({.store = *store_,
                               .mesh_spec = *spec_,
                               .trust_domain = options_.trust_domain,
                               .log = runtime_.log,
                               .metrics = runtime_.metrics});
}

}  // namespace osm::controller
