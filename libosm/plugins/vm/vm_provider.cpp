#include "osm/spec/vm_provider.hpp"

#include "base/maps.hpp"
#include "endpoint/store_provider.hpp"
#include "vm/machine_table.hpp"

namespace osm::inline v1::vm {
namespace {

// Adds machines outside the mesh, and addresses that several machines of the mesh have.
void add_shared_problems(const ObjectStore& store,
                         const std::map<std::string, MachineTable>& tables,
                         std::vector<Problem>& out) {
  for (const auto& object : store.list(kinds::kVirtualMachine))
    if (!tables.contains(object->key.ns))
      out.push_back({ErrorCode::kDanglingReference, object->key, "", 0, "metadata.namespace",
                     "namespace " + object->key.ns +
                         " is not in the mesh, so this machine is ignored; label its Namespace "
                         "object with openservicemesh.io/monitored-by"});
  std::map<std::string, WorkloadName> owners;
  for (const auto& [ns, table] : tables) {
    for (const auto& [name, workload] : table.workloads()) {
      const auto [owner, first] = owners.emplace(workload.address, workload.name);
      if (!first)
        out.push_back({ErrorCode::kConflictingAddress,
                       {kinds::kVirtualMachine, ns, name},
                       "",
                       0,
                       "spec.address",
                       workload.address + " is also the address of VirtualMachine " +
                           owner->second.str() + "; give each machine its own"});
    }
  }
}

}  // namespace

std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options) {
  return std::make_unique<endpoint::StoreProvider<VmProvider, MachineTable>>(
      endpoint::StoreProviderOptions<MachineTable>{
          .id = "vm",
          .kinds = {kinds::kVirtualMachine},
          .store = options.store,
          .mesh_spec = options.mesh_spec,
          .log = options.log,
          .metrics = options.metrics,
          .synced_message = "virtual machines read",
          .recomputed_metric = "osm_vm_services_recomputed_total",
          .make_table = [domain = options.trust_domain](
                            const std::string& ns) { return MachineTable(domain, ns); },
          .read =
              [&metrics = options.metrics](MachineTable& table, const ObjectKey& key,
                                           const Object* object) {
                if (object) metrics.add("osm_vm_decoded_total", {}, 1);
                table.set_machine(
                    key.name, object ? decode_virtual_machine(*object) : DecodedVirtualMachine());
              },
          .add_problems =
              [&store = options.store](const auto& tables, std::vector<Problem>& out) {
                add_shared_problems(store, tables, out);
              }});
}

}  // namespace osm::inline v1::vm
