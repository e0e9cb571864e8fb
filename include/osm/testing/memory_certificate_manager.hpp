// A certificate::Manager in memory, for tests of its callers. It signs nothing: chain, key and
// trust bundle are made-up text, unique to each certificate. It renews nothing by itself: tests
// call rotate_certificate().
//
// For all calls: Thread: any, but setters one at a time. Blocking: no, except for the subscribers'
// callbacks. Calls that replace certificates notify subscribers in the caller's thread before they
// return.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryCertificateManager : public certificate::Manager {
 public:
  explicit MemoryCertificateManager(const Clock& clock);
  ~MemoryCertificateManager() override;

  // Error of every certificate that would have to be made, as in an outage of the CA; nullopt:
  // none.
  void set_failure(std::optional<Error> failure);

  // Replaces the roots, and calls the subscribers of subscribe_ca() once.
  void set_trust_bundle_pem(std::string pem);

  // Sets the CA of certificates that are made from now on, and calls the subscribers of
  // subscribe_ca(). Default: "memory".
  void set_issuer_id(std::string id);

  // Number of certificates made.
  int issued() const;

  // Serves a cached certificate until it ends. Each certificate lives exactly as long as requested.
  // `requester` is ignored: there is no audit log.
  Result<certificate::CertificatePtr> issue_certificate(
      const certificate::Subject& subject, std::chrono::seconds validity,
      const certificate::Requester& requester = {}) override;
  Result<certificate::CertificatePtr> rotate_certificate(const CommonName& common_name) override;
  // Makes the certificate at once. After a failure nothing is cached: call it again.
  Result<certificate::CertificatePtr> keep_certificate(
      const certificate::Subject& subject, std::function<std::chrono::seconds()> validity) override;
  // Accepts every request. The name is neither cached nor announced.
  Result<certificate::CertificatePtr> certify_request(
      const certificate::Subject& subject, const std::string& request_pem,
      std::chrono::seconds validity, const certificate::Requester& requester = {}) override;
  void release_certificate(const CommonName& common_name) override;
  std::vector<certificate::CertificatePtr> list_certificates() const override;
  std::string trust_bundle_pem() const override;
  std::string issuer_id() const override;
  Subscription subscribe(
      std::function<void(const certificate::CertificatePtr& issued)> on_issued) override;
  Subscription subscribe_ca(std::function<void()> on_change) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
