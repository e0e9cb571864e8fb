#include "cluster/commands.hpp"

namespace osm::cli {

void add_cluster_commands(CLI::App& root, Flags& flags) {
  for (AddCommands* add : {add_install, add_upgrade, add_uninstall, add_mesh, add_namespace,
                           add_metrics, add_check, add_verify})
    add(root, flags);
}

}  // namespace osm::cli
