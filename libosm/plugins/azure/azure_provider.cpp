#include "endpoint/machine_provider.hpp"
#include "machines/azure_resource.hpp"
#include "osm/spec/azure_resources.hpp"

namespace osm::inline v1::azure {

std::unique_ptr<AzureProvider> make_azure_provider(const AzureProviderOptions& options) {
  return endpoint::make_machine_provider<AzureProvider>(
      {.id = "azure",
       .kind = kinds::kAzureResource,
       .decode = decode_azure_resource,
       .store = options.store,
       .mesh_spec = options.mesh_spec,
       .trust_domain = options.trust_domain,
       .log = options.log,
       .metrics = options.metrics,
       .synced_message = "Azure resources read and resolved",
       .recomputed_metric = Counter{"osm_azure_services_recomputed_total",
                                    "Services whose Azure resources were worked out anew"},
       .resolver = options.resolver,
       .unresolved =
           "has no effect, since the controller does not know how to reach Azure; start it "
           "with --azure-config"});
}

}  // namespace osm::inline v1::azure
