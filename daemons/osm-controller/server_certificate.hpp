// The controller's own certificate, as the ADS server reads it at every handshake.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "osm/certificate.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::controller {

class ServerCertificate {
 public:
  // Issues it and follows its renewals. `manager` outlives the value.
  // Failure: the manager's. Blocking: until the CA answers.
  static Result<std::unique_ptr<ServerCertificate>> issue(certificate::Manager& manager,
                                                          const TrustDomain& domain,
                                                          const std::string& osm_namespace);

  // Never null. Thread: any. Blocking: no.
  certificate::CertificatePtr load() const;

 private:
  explicit ServerCertificate(certificate::Subject subject) : subject_(std::move(subject)) {}
  void store(certificate::CertificatePtr certificate);

  const certificate::Subject subject_;
  mutable std::mutex mutex_;
  certificate::CertificatePtr current_;
  Subscription renewals_;
};

}  // namespace osm::controller
