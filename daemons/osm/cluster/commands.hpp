// The commands about a mesh as a whole: its installation, its controllers and its move from OSM v1.
#pragma once

#include "command.hpp"

namespace osm::cli {

AddCommands add_install, add_upgrade, add_uninstall, add_mesh, add_namespace, add_metrics,
    add_check, add_verify;

}  // namespace osm::cli
