#include "mesh/commands.hpp"

#include "show.hpp"

namespace osm::cli {

void add_mesh_commands(CLI::App& root, Flags& flags) {
  add_proxy(root, flags);
  add_policy(root, flags);
  add_service(root, flags);
  add_identity(root, flags);
  add_graph(root, flags);
  add_problems(root, flags);
  query(root, flags, "providers",
        "Endpoints providers in order of precedence, and whether they are current", "osm providers",
        "/v1/providers", show_providers);
  add_status(root, flags);
  add_objects(root, flags);
  add_certificate(root, flags);
  add_deny(root, flags);
  add_migrate(root, flags);
  add_support(root, flags);
}

}  // namespace osm::cli
