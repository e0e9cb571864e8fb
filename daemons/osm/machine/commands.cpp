#include "machine/commands.hpp"

namespace osm::cli {

void add_machine_commands(CLI::App& root, Flags& flags) {
  CLI::App* vm = root.add_subcommand("vm", "Machines of the mesh")->require_subcommand(1);
  for (AddCommands* add :
       {add_vm_bootstrap, add_vm_token, add_vm_join, add_vm_renew, add_vm_drain, add_vm_leave})
    add(*vm, flags);
}

}  // namespace osm::cli
