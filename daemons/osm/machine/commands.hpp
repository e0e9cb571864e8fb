// The commands for machines of the mesh.
#pragma once

#include "command.hpp"

namespace osm::cli {

AddCommands add_vm_bootstrap, add_vm_token, add_vm_join, add_vm_renew, add_vm_drain, add_vm_leave;

}  // namespace osm::cli
