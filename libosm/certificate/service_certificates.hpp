// Certificates of workloads' service accounts, for ads: a SecretSource over the Manager that never
// blocks its caller.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/strand.hpp"
#include "certificate/issuance.hpp"
#include "model/secret_source.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::certificate {

// Subject of an account's certificate.
Subject service_subject(const TrustDomain& domain, const ServiceIdentity& identity);

struct ServiceCertificatesOptions {
  Manager& manager;
  Runtime runtime;           // subscribers are called on its `blocking`
  TrustDomain trust_domain;  // initial trust domain
  // Read before every issuance, on any thread.
  std::function<std::chrono::seconds()> validity;
};

class ServiceCertificates final : public model::SecretSource {
 public:
  // Lifetime: everything that `options` borrows outlives the source. Its destructor waits for a
  // running issuance or callback, so it must not run inside one.
  explicit ServiceCertificates(const ServiceCertificatesOptions& options);
  ~ServiceCertificates() override;

  // Releases every certificate. Afterwards no callback runs, and nothing that `options` borrows is
  // used: identities have no certificates. Idempotent. Blocking: until a running callback ends.
  void stop();

  CertificatePtr certificate_for(const ServiceIdentity& identity) override;
  std::string trust_bundle_pem() const override;
  Status check_peer(const std::string& leaf_pem, const std::string& chain_pem) const override;
  void release(const ServiceIdentity& identity) override;
  Subscription subscribe(OnChange on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

  // Gives every identity a certificate under its name of this domain. The old one is kept and
  // renewed until the new one is there. Thread: any. Blocking: no.
  void set_trust_domain(const TrustDomain& domain);

 private:
  // On the strand.
  void on_issued(const CertificatePtr& issued);
  void drop_released();
  void ask_again();

  // Under mutex_.
  bool keep(const ServiceIdentity& identity, CertificatePtr& held);
  void show(CertificatePtr& held, CertificatePtr next);
  void drop(const CommonName& name);
  void drop_all();
  std::string present_bundle() const;
  void note_chain(const std::string& chain_pem) const;
  CommonName name_of(const ServiceIdentity& identity) const;

  const ServiceCertificatesOptions options_;
  Notifier<const std::optional<ServiceIdentity>&> changed_;

  // Shared with the manager, which asks it as long as anybody keeps one of our names.
  struct Validity;
  const std::shared_ptr<Validity> validity_;

  mutable TrustedRoots roots_;
  mutable std::mutex mutex_;  // over the next nine
  bool stopped_ = false;
  mutable std::string first_bundle_;         // that a handshake was made with
  mutable bool bundle_changed_ = false;      // since then
  mutable std::vector<std::string> chains_;  // that peers sent, oldest first
  TrustDomain trust_domain_;
  std::unordered_map<ServiceIdentity, CertificatePtr> held_;  // null: not issued yet
  std::unordered_map<CommonName, ServiceIdentity> names_;     // names that the manager keeps for us
  std::set<CommonName> released_;                             // names to release soon
  std::set<ServiceIdentity> refused_;                         // another subject holds their names

  Subscription timer_;  // of the strand
  Strand strand_;
  Subscription issued_;
  Subscription ca_;
};

}  // namespace osm::inline v1::certificate
