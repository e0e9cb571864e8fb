// The certificate of one of the mesh's servers, always the newest: TLS reads it at every handshake.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::certificate {

class OSM_API KeptCertificate {
 public:
  virtual ~KeptCertificate() = default;

  // Issues the certificate and follows its renewals; the manager keeps it as long as the value
  // lives. Lifetime: `manager` outlives the value.
  // Failure: the manager's. Thread: any but an event loop's. Blocking: until the CA answers.
  static Result<std::unique_ptr<KeptCertificate>> issue(
      Manager& manager, const Subject& subject,
      std::chrono::seconds validity = std::chrono::hours(48));

  // Issues the certificate for `subject` from now on. The server shows the previous one, without
  // renewal, until the new one is there. Failure: the manager's; call it again. Thread: any but an
  // event loop's, one call at a time. Blocking: until the CA answers.
  virtual Status change_subject(const Subject& subject) = 0;

  // The newest certificate; never null. Thread: any. Blocking: no.
  virtual CertificatePtr load() const = 0;
};

// Subject of a webhook behind the Kubernetes Service `service` in `ns`: "<service>.<ns>.svc", as
// the API server calls it, and spiffe://<domain>/osm/webhook/<service>.
OSM_API Subject webhook_subject(const TrustDomain& domain, const std::string& service,
                                const std::string& ns);

// Subject of the certificate that a control plane shows to its proxies. `ns`: the control plane's
// namespace, ControlPlaneOptions::osm_namespace. Envoys and `osm` know it by its SPIFFE id; gRPC
// libraries, which compare host names only, by the DNS name "osm-controller.<ns>.svc".
OSM_API Subject controller_subject(const TrustDomain& domain, const std::string& ns);

}  // namespace osm::inline v1::certificate
