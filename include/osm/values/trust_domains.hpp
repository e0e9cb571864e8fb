// The trust domains of a mesh: one, except while it changes from one to another
// (docs/adr/0027-trust-domains.md).
#pragma once

#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Which of them means what. A value; names are lower-case, unique in each list, and in order.
struct TrustDomains {
  TrustDomains() = default;
  // One for everything, as it is at rest. Failure: none. Thread: any. Blocking: no.
  TrustDomains(const TrustDomain& only)  // NOLINT(google-explicit-constructor): the usual case
      : signing(only), controller(only), accepted{only}, allowed{only} {}

  TrustDomain signing;                // of every identity that is issued from now on
  TrustDomain controller;             // of the certificate that the control plane shows to proxies
  std::vector<TrustDomain> accepted;  // of peers that connect; the two above among them
  std::vector<TrustDomain> allowed;   // of peers that are connected: those above, and those whose
                                      // connections may still be open

  friend bool operator==(const TrustDomains&, const TrustDomains&) = default;
};

}  // namespace osm::inline v1
