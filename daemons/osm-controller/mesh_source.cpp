#include "mesh_source.hpp"

#include <utility>

#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "state_dir.hpp"

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

namespace {

class DirectorySource final : public MeshSource {
 public:
  using MeshSource::MeshSource;

  Status start() {
    OSM_TRY(check_mesh_dir(options_.mesh_dir));
    OSM_TRY(auto store,
            spec::make_directory_store(
                {.directory = options_.mesh_dir, .watcher = runtime_.asio(), .runtime = runtime_}));
    read(std::move(store));
    record_ = make_file_record(options_.state_dir + "/rotation.json");
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<MeshSource>> make_directory_source(const Options& options,
                                                          OwnRuntime& runtime) {
  auto source = std::make_unique<DirectorySource>(options, runtime);
  OSM_TRY(source->start());
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
