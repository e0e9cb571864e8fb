#include "osm/values/proxy_id.hpp"

#include <string>

#include "model/names.hpp"

namespace osm::inline v1 {

ProxyId derived_proxy_id(const TrustDomain& domain, const WorkloadName& workload) {
  return model::derived_proxy_id(domain, workload);
}

Result<ProxyId> parse_proxy_id(std::string_view text) {
  if (is_uuid(text)) return ProxyId(std::string(text));
  return Error{ErrorCode::kInvalidField,
               "a proxy's UUID must be in lower case, such as "
               "6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a; derived_proxy_id() makes one of a name"};
}

}  // namespace osm::inline v1
