// Creates a CertificateRequest (cert-manager.io/v1), waits for its result, and deletes it in any
// case. https://cert-manager.io/docs/usage/certificaterequest/
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "osm/certificate/cert_manager.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::cert_manager {

// Makes the caller's thread wait.
using Sleep = std::function<void(std::chrono::nanoseconds)>;

// make_issuer() with a replaceable sleep, for tests.
Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options,
                                                         const Sleep& sleep);

struct Answer {
  std::string certificate_pem;  // leaf first
  std::string ca_pem;           // empty if the issuer does not tell
};

class Requester {
 public:
  Requester(const IssuerOptions& options, Sleep sleep);

  // Failure: kPermissionDenied (RBAC, denied), kInvalidArgument (the issuer does not sign this
  // request), kUnavailable (failed, not in time, no server, no cert-manager), with the remedy.
  // Thread: any, concurrently. Blocking: options.deadline.
  Result<Answer> ask(const certificate::SigningRequest& request);

  // Name in errors: "Issuer osm-system/osm-ca".
  const std::string& issuer_name() const { return issuer_name_; }

 private:
  std::string new_name();
  Result<Answer> wait(const std::string& name) const;
  Result<std::optional<Answer>> read(const std::string& request, std::string& why) const;
  void remove(const std::string& name) const;
  void collect_now_and_then();
  Error refused_by_server(const Error& error) const;
  Error late(const std::string& name, const std::string& why) const;

  const IssuerOptions options_;
  const std::string issuer_name_;
  const Sleep sleep_;
  std::mutex mutex_;  // guards the following members and the use of the Rng
  std::optional<SteadyTime> collected_;
};

}  // namespace osm::inline v1::cert_manager
