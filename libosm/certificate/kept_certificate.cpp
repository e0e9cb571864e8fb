#include "osm/kept_certificate.hpp"

#include <mutex>
#include <utility>

#include "osm/subscription.hpp"

namespace osm::inline v1::certificate {
namespace {

class Kept final : public KeptCertificate {
 public:
  explicit Kept(Subject subject) : subject_(std::move(subject)) {}

  Status start(Manager& manager, std::chrono::seconds validity) {
    // Subscribed first: a renewal right after the issuance is not missed.
    renewals_ = manager.subscribe([this](const CertificatePtr& renewed) {
      if (renewed->subject == subject_) store(renewed);
    });
    OSM_TRY(CertificatePtr first, manager.issue_certificate(subject_, validity));
    std::lock_guard lock(mutex_);
    if (!current_) current_ = std::move(first);  // else renewed already
    return {};
  }

  CertificatePtr load() const override {
    std::lock_guard lock(mutex_);
    return current_;
  }

 private:
  void store(CertificatePtr certificate) {
    std::lock_guard lock(mutex_);
    current_ = std::move(certificate);
  }

  const Subject subject_;
  mutable std::mutex mutex_;
  CertificatePtr current_;
  Subscription renewals_;
};

}  // namespace

Result<std::unique_ptr<KeptCertificate>> KeptCertificate::issue(Manager& manager, Subject subject,
                                                                std::chrono::seconds validity) {
  auto kept = std::make_unique<Kept>(std::move(subject));
  if (Status started = kept->start(manager, validity); !started) return started.error();
  return std::unique_ptr<KeptCertificate>(std::move(kept));
}

Subject webhook_subject(const TrustDomain& domain, const std::string& service,
                        const std::string& ns) {
  const std::string name = service + '.' + ns + ".svc";
  return {CommonName(name),
          SpiffeId("spiffe://" + domain.str() + "/osm/webhook/" + service),
          Usage::kWebhook,
          {name}};
}

}  // namespace osm::inline v1::certificate
