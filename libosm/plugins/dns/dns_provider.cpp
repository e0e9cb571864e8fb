#include "endpoint/machine_provider.hpp"
#include "machines/dns_resource.hpp"
#include "osm/spec/dns_resources.hpp"

namespace osm::inline v1::dns {

std::unique_ptr<DnsProvider> make_dns_provider(const DnsProviderOptions& options) {
  return endpoint::make_machine_provider<DnsProvider>(
      {.id = "dns",
       .kind = kinds::kDnsResource,
       .decode = decode_dns_resource,
       .store = options.store,
       .mesh_spec = options.mesh_spec,
       .trust_domain = options.trust_domain,
       .log = options.log,
       .metrics = options.metrics,
       .synced_message = "DNS resources read and resolved",
       .recomputed_metric = Counter{"osm_dns_services_recomputed_total",
                                    "Services whose DNS resources were worked out anew"},
       .resolver = &options.resolver});
}

}  // namespace osm::inline v1::dns
