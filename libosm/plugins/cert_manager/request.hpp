// CertificateRequest (cert-manager.io/v1) as text: what is asked, and what became of it.
// https://cert-manager.io/docs/usage/certificaterequest/
#pragma once

#include <string>

#include "osm/certificate/cert_manager.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::cert_manager {

// Of our requests, in our namespace: what is collected carries both.
inline constexpr const char* kLabels =
    "app.kubernetes.io/name=openservicemesh.io,app.kubernetes.io/component=certificate-request";

const kubernetes::ObjectKind& request_kind();

// The object to create.
std::string request_json(const std::string& ns, const std::string& name, const IssuerRef& issuer,
                         const certificate::SigningRequest& request);

enum class Phase {
  kPending,
  kReady,
  kDenied,   // by an approver; for ever
  kInvalid,  // its issuer will not sign such a request; for ever
  kFailed,   // for ever; another request may fare better
};

struct Progress {
  Phase phase = Phase::kPending;
  std::string why{};              // of all but kReady: in cert-manager's words where it has any
  std::string certificate_pem{};  // of kReady: leaf first
  std::string ca_pem{};           // of kReady: empty where the issuer does not say
};

// Failure: kInvalidSyntax: no such object, or a certificate that is not base64.
Result<Progress> read_progress(const std::string& json);

}  // namespace osm::inline v1::cert_manager
