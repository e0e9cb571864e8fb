// CertificateRequest (cert-manager.io/v1) as text: the request, and its progress.
// https://cert-manager.io/docs/usage/certificaterequest/
#pragma once

#include <string>

#include "osm/certificate/cert_manager.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::cert_manager {

// Labels of our requests in our namespace. Only objects with both are collected.
inline constexpr const char* kLabels =
    "app.kubernetes.io/name=openservicemesh.io,app.kubernetes.io/component=certificate-request";

const kubernetes::ObjectKind& request_kind();

// The object to create.
std::string request_json(const std::string& ns, const std::string& name, const IssuerRef& issuer,
                         const certificate::SigningRequest& request);

enum class Phase {
  kPending,
  kReady,
  kDenied,   // by an approver; final
  kInvalid,  // the issuer does not sign such a request; final
  kFailed,   // final; another request may succeed
};

struct Progress {
  Phase phase = Phase::kPending;
  std::string why{};              // for all but kReady: cert-manager's message, if any
  std::string certificate_pem{};  // for kReady: leaf first
  std::string ca_pem{};           // for kReady: empty if the issuer does not tell
};

// Failure: kInvalidSyntax: no such object, or a certificate that is not base64.
Result<Progress> read_progress(const std::string& json);

}  // namespace osm::inline v1::cert_manager
