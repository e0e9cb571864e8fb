// Certificates of workloads' service accounts, for ads: a SecretSource over the Manager that never
// blocks its caller.
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
  TrustDomain trust_domain;  // initial trust domain
  // Read before every issuance, on any thread.
  std::function<std::chrono::seconds()> validity;
};

class ServiceCertificates : public model::SecretSource {
 public:
  // Gives every identity a certificate under its name of this domain. The old one is kept and
  // renewed until the new one is there. Thread: any. Blocking: no.
  virtual void set_trust_domain(const TrustDomain& domain) = 0;
};

// Lifetime: everything that `options` borrows outlives the source. Its destructor waits for a
// running issuance or callback, so it must not run inside one.
std::unique_ptr<ServiceCertificates> make_service_certificates(
    const ServiceCertificatesOptions& options);

}  // namespace osm::inline v1::certificate
