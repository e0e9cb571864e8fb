#include "osm/ids.hpp"

namespace osm {

SpiffeId spiffe_id(const TrustDomain& domain, const ServiceIdentity& identity) {
  return SpiffeId(workload_spiffe_prefix(domain) + identity.ns + "/sa/" + identity.name);
}

std::string workload_spiffe_prefix(const TrustDomain& domain) {
  return "spiffe://" + domain.str() + "/ns/";
}

}  // namespace osm
