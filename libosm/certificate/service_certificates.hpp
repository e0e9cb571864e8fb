// The certificates that workloads prove their service account with, for ads: the manager's, as a
// SecretSource that never makes its caller wait. The manager caches, renews and repeats.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "model/secret_source.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::certificate {

struct ServiceCertificatesOptions {
  Manager& manager;
  Runtime runtime;           // subscribers are called on its `blocking`
  TrustDomain trust_domain;  // to begin with
  // Read before every issuance, on any thread.
  std::function<std::chrono::seconds()> validity;
};

class ServiceCertificates : public model::SecretSource {
 public:
  // Every identity gets a certificate under its name of this domain; until it is there the one
  // before is kept, and renewed. Thread: any. Blocking: no.
  virtual void set_trust_domain(const TrustDomain& domain) = 0;
};

// Lifetime: what `options` borrows outlives the source. Its destructor releases all certificates
// and waits for a subscriber's callback that is running, so it must not be called from inside one.
std::unique_ptr<ServiceCertificates> make_service_certificates(
    const ServiceCertificatesOptions& options);

}  // namespace osm::inline v1::certificate
