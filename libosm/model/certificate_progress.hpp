// Progress of proxies' certificates during a root rotation: root rotation asks, ads answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::model {

// Target state of the proxies' certificates.
struct CertificateGoal {
  std::string issuer_id;      // certificate::Issuer::id() of the CA that signs
  std::string issuer_key_id;  // authorityKeyIdentifier in the certificates it signs, hex
  std::string trust_bundle_pem;
  TrustDomains trust_domains;
};

// What a connected proxy lacks for the goal.
struct CertificateLag {
  bool bundle = false;  // it does not have the trust bundle or its domains yet
  bool leaf = false;    // its leaf or proxy certificate is of another CA or domain
};

struct CertificateProgress {
  bool known = true;  // false: the mesh is not read yet
  Table<WorkloadEntry> workloads{};
  std::vector<std::pair<ProxyKey, CertificateLag>> proxies{};  // those connected here

  std::size_t bundle_lag() const { return count(&CertificateLag::bundle); }
  std::size_t leaf_lag() const { return count(&CertificateLag::leaf); }

 private:
  std::size_t count(bool CertificateLag::*lacks) const {
    return static_cast<std::size_t>(std::count_if(
        proxies.begin(), proxies.end(), [&](const auto& entry) { return entry.second.*lacks; }));
  }
};

}  // namespace osm::inline v1::model
