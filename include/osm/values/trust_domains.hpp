// The trust domains of a mesh. There is one, except during a trust domain migration
// (docs/adr/0027-trust-domains.md).
#pragma once

#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Role of each trust domain during a migration. A value; names are lower case, unique in each list,
// and ordered.
struct TrustDomains {
  TrustDomains() = default;
  // One trust domain in every role: no migration. Failure: none. Thread: any. Blocking: no.
  TrustDomains(const TrustDomain& only)  // NOLINT(google-explicit-constructor): the usual case
      : signing(only), controller(only), accepted{only}, allowed{only} {}

  TrustDomain signing;                // new certificates are issued under it
  TrustDomain controller;             // in the certificate that the control plane shows to proxies
  std::vector<TrustDomain> accepted;  // accepted at handshakes; contains the two above
  std::vector<TrustDomain> allowed;   // accepted on open connections: those above, and those of
                                      // connections that may still be open
  // True: workloads are known by their names in OSM v1.2 too, "<account>.<namespace>.<domain>" as a
  // DNS SAN. For the time of a move from it.
  bool osm_v1_names = false;

  friend bool operator==(const TrustDomains&, const TrustDomains&) = default;
};

}  // namespace osm::inline v1
