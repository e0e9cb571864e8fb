// Progress of proxies' certificates during a root rotation: root rotation asks, ads answers.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::model {

// Target state of the proxies' certificates.
struct CertificateGoal {
  std::string issuer_id;      // certificate::Issuer::id() of the CA that signs
  std::string issuer_key_id;  // authorityKeyIdentifier in the certificates it signs, hex
  std::string trust_bundle_pem;
  TrustDomains trust_domains;
};

struct CertificateProgress {
  std::size_t workloads = 0;   // all of the mesh, also those whose proxy is not connected here
  std::size_t proxies = 0;     // connected here
  std::size_t bundle_lag = 0;  // proxies that do not have the trust bundle or its domains yet
  std::size_t leaf_lag = 0;    // proxies with a leaf or proxy certificate of another CA or domain
  std::vector<std::string> lagging{};  // some of the lagging proxies: "shop/web-1"

  friend bool operator==(const CertificateProgress&, const CertificateProgress&) = default;
};

}  // namespace osm::inline v1::model
