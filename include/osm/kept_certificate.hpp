// A certificate that a server of ours shows, always the newest: what TLS asks for at every
// handshake.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "osm/api.hpp"
#include "osm/certificate.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

class OSM_API KeptCertificate {
 public:
  virtual ~KeptCertificate() = default;

  // Issues it and follows its renewals. `manager` outlives the value.
  // Failure: the manager's. Thread: any but an event loop's. Blocking: until the CA answers.
  static Result<std::unique_ptr<KeptCertificate>> issue(
      Manager& manager, Subject subject, std::chrono::seconds validity = std::chrono::hours(48));

  // Never null. Thread: any. Blocking: no.
  virtual CertificatePtr load() const = 0;
};

// Of a webhook behind the Kubernetes Service `service` in `ns`: "<service>.<ns>.svc", as the API
// server calls it, and spiffe://<domain>/osm/webhook/<service>.
OSM_API Subject webhook_subject(const TrustDomain& domain, const std::string& service,
                                const std::string& ns);

}  // namespace osm::inline v1::certificate
