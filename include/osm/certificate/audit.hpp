// The audit log: who got which certificate, and why. A host gives a sink to make_manager(); the
// manager calls it for every certificate that it issues, at every log level.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"

namespace osm::inline v1::certificate {

struct Certificate;  // osm/certificate/manager.hpp

// Reason for an issuance.
enum class IssueReason {
  kFirst,      // its name had no certificate
  kRenewal,    // before the end of the one in use
  kRotation,   // another CA signs, or an administrator asked for a new one
  kBootstrap,  // a machine joins the mesh
  kInjection,  // a pod gets its sidecar
};

// "first", "renewal", "rotation", "bootstrap", "injection".
constexpr std::string_view issue_reason_text(IssueReason reason) {
  switch (reason) {
    case IssueReason::kRenewal:
      return "renewal";
    case IssueReason::kRotation:
      return "rotation";
    case IssueReason::kBootstrap:
      return "bootstrap";
    case IssueReason::kInjection:
      return "injection";
    case IssueReason::kFirst:
      break;
  }
  return "first";
}

// The party that asked for a certificate.
struct Requester {
  // Empty: the manager tells kFirst, kRenewal and kRotation apart.
  std::optional<IssueReason> reason{};
  std::string address{};   // "192.0.2.7:41234"; empty: this process
  std::string identity{};  // a SPIFFE ID or the name of a user; empty: this process
};

// Receives a record of each issued certificate.
class OSM_API AuditSink {
 public:
  virtual ~AuditSink() = default;

  // Records an issued certificate, before anybody gets it. `requester.reason` is set. Record no
  // private key.
  // Failure: for the sink to report; the certificate is handed out all the same.
  // Lifetime: arguments live for the call only. Thread: any, concurrently. Blocking: the requester
  // waits for it, so briefly at most.
  virtual void issued(const Certificate& certificate, const Requester& requester) = 0;
};

}  // namespace osm::inline v1::certificate
