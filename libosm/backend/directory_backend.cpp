#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/spec/directory_store.hpp"

namespace osm::inline v1 {

Result<Backend> make_directory_backend(const DirectoryBackendOptions& options) {
  const std::string& state = options.state_dir;
  Backend backend{.objects_in = options.directory, .replica = options.replica};
  OSM_TRY(backend.objects,
          spec::make_directory_store({.directory = options.directory,
                                      .watcher = options.watcher,
                                      .runtime = options.runtime,
                                      .first_seen = make_file_record(state + "/first-seen.json")}));
  backend.root_rotation = make_file_record(state + "/rotation.json");
  backend.last_mesh_config = make_file_record(state + "/mesh-config.json");
  backend.join_tokens = make_file_record(state + "/join-tokens.json");
  backend.drained_machines = make_file_record(state + "/drained-machines.json");
  backend.ca_store = [state](const CaPlace& place) {
    return certificate::open_directory_ca_store(
        state + (place.root == kOwnRoot ? "/ca" : "/roots/" + place.root));
  };
  backend.join = [] { return std::unique_ptr<ReplicaBoard>(); };
  return backend;
}

}  // namespace osm::inline v1
