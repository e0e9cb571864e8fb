// A certificate::Manager in memory, for tests of what asks for certificates. Nothing is signed:
// chain, key and trust bundle are made-up text that is unique to each certificate. Nothing is
// renewed by itself: rotate_certificate() is the test's to call.
//
// All calls: Thread: any, but setters one at a time. Blocking: no (but for the subscribers'). Those
// that replace certificates notify subscribers in the caller's thread before they return.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryCertificateManager final : public certificate::Manager {
 public:
  explicit MemoryCertificateManager(const Clock& clock);
  ~MemoryCertificateManager() override;

  // While set, certificates that would have to be made fail with it, as when a CA is down; nullopt:
  // it is back.
  void set_failure(std::optional<Error> failure);

  // Replaces the roots: every cached certificate is announced again with them, its key unchanged.
  void set_trust_bundle_pem(std::string pem);

  // Of which CA the certificates are that are made from now on: "memory", until this is called.
  void set_issuer_id(std::string id);

  // How many certificates have been made.
  int issued() const;

  // A cached certificate is served until it ends; each lives as long as asked, to the second.
  Result<certificate::CertificatePtr> issue_certificate(const certificate::Subject& subject,
                                                        std::chrono::seconds validity) override;
  Result<certificate::CertificatePtr> rotate_certificate(const CommonName& common_name) override;
  // Takes every request; the name is neither cached nor announced.
  Result<certificate::CertificatePtr> certify_request(const certificate::Subject& subject,
                                                      const std::string& request_pem,
                                                      std::chrono::seconds validity) override;
  void release_certificate(const CommonName& common_name) override;
  std::vector<certificate::CertificatePtr> list_certificates() const override;
  std::string trust_bundle_pem() const override;
  std::string issuer_id() const override;
  Subscription subscribe(
      std::function<void(const certificate::CertificatePtr& rotated)> on_rotated) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
