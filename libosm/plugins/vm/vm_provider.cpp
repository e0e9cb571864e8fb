#include "osm/spec/vm_provider.hpp"

#include "endpoint/machine_provider.hpp"
#include "machines/virtual_machine.hpp"

namespace osm::inline v1::vm {

std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options) {
  return endpoint::make_machine_provider<VmProvider>(
      {.id = "vm",
       .kind = kinds::kVirtualMachine,
       .decode = decode_virtual_machine,
       .store = options.store,
       .mesh_spec = options.mesh_spec,
       .trust_domain = options.trust_domain,
       .log = options.log,
       .metrics = options.metrics,
       .synced_message = "virtual machines read",
       .recomputed_metric = Counter{"osm_vm_services_recomputed_total",
                                    "Services whose machines were worked out anew"},
       .decoded_metric = Counter{"osm_vm_decoded_total", "VirtualMachines decoded"},
       .drained = options.drained});
}

}  // namespace osm::inline v1::vm
