// How far the certificates of connected proxies are while a root is rotated.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "osm/values/trust_domains.hpp"

namespace osm::inline v1 {

// What they are to be.
struct CertificateGoal {
  std::string issuer_id;      // certificate::Issuer::id() of the CA that signs
  std::string issuer_key_id;  // authorityKeyIdentifier of what it signs, hex
  std::string trust_bundle_pem;
  TrustDomains trust_domains;
};

// How many connected proxies have reached it.
struct CertificateProgress {
  std::size_t workloads = 0;         // of the mesh, whether or not their proxies are connected here
  std::size_t proxies = 0;           // connected here
  std::size_t bundle_lag = 0;        // of them: do not trust it, or its domains, yet
  std::size_t leaf_lag = 0;          // have a leaf or a proxy certificate of another CA or domain
  std::vector<std::string> lagging;  // some of them: "shop/web-1"
};

}  // namespace osm::inline v1
