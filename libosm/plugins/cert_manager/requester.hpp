// One CertificateRequest at a time: made, waited for, and deleted whatever became of it.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "cert_manager/request.hpp"
#include "osm/certificate/cert_manager.hpp"

namespace osm::inline v1::cert_manager {

// How a caller's thread waits.
using Sleep = std::function<void(std::chrono::nanoseconds)>;

class Requester {
 public:
  Requester(const IssuerOptions& options, Sleep sleep);

  // Result: a Progress of kReady.
  // Failure: kPermissionDenied (RBAC, denied), kInvalidArgument (the issuer will not sign this),
  // kUnavailable (failed, not in time, the server is away, no cert-manager), with the remedy.
  // Thread: any, concurrently. Blocking: options.deadline.
  Result<Progress> ask(const certificate::SigningRequest& request);

  // "Issuer osm-system/osm-ca": as errors call it.
  const std::string& issuer_name() const { return issuer_name_; }

 private:
  std::string new_name();
  Result<Progress> wait(const std::string& name) const;
  Status create(const std::string& name, const certificate::SigningRequest& request) const;
  void remove(const std::string& name) const;
  void collect_now_and_then();
  void collect() const;
  Error refused_by_server(const Error& error) const;
  Error late(const std::string& name, const std::string& why) const;

  const IssuerOptions options_;
  const std::string issuer_name_;
  const Sleep sleep_;
  std::mutex mutex_;  // over what follows, and the Rng's use here
  SteadyTime collected_{};
  bool ever_collected_ = false;
};

}  // namespace osm::inline v1::cert_manager
