// The commands about objects, proxies and certificates of the mesh.
#pragma once

#include "command.hpp"

namespace osm::cli {

// add_objects adds apply, get, delete and edit.
AddCommands add_proxy, add_policy, add_service, add_identity, add_graph, add_problems, add_status,
    add_objects, add_edit, add_certificate, add_deny, add_migrate, add_support;

}  // namespace osm::cli
