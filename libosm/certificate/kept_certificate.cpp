#include "osm/certificate/kept_certificate.hpp"

#include <mutex>
#include <optional>
#include <utility>

#include "model/names.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::certificate {
namespace {

class Kept final : public KeptCertificate {
 public:
  Kept(Manager& manager, std::chrono::seconds validity) : manager_(manager), validity_(validity) {
    renewals_ = manager_.subscribe([this](const CertificatePtr& renewed) {
      std::lock_guard lock(mutex_);
      if (renewed->subject == subject_) current_ = renewed;
    });
  }
  ~Kept() override {
    renewals_.reset();
    release();
  }

  Status change_subject(const Subject& subject) override {
    {
      std::lock_guard lock(mutex_);
      if (current_ && current_->subject == subject && subject_ == subject) return {};
      // Set it first, to catch a renewal right after the issuance.
      subject_ = subject;
    }
    // Two subjects may share a common name; the manager keeps only one certificate per name.
    release();
    const auto kept =
        manager_.keep_certificate(subject, [validity = validity_] { return validity; });
    if (!kept) return kept.error();
    kept_ = subject.common_name;
    auto first = manager_.issue_certificate(subject, validity_);  // waits, or says what fails
    if (!first) {
      release();
      return first.error();
    }
    std::lock_guard lock(mutex_);
    const bool renewed =
        current_ && current_->subject == subject && current_->not_before >= (*first)->not_before;
    if (!renewed) current_ = *std::move(first);
    return {};
  }

  CertificatePtr load() const override {
    std::lock_guard lock(mutex_);
    return current_;
  }

 private:
  void release() {
    if (kept_) manager_.release_certificate(*kept_);
    kept_.reset();
  }

  Manager& manager_;
  const std::chrono::seconds validity_;
  std::optional<CommonName> kept_;  // the name that the manager keeps for this value
  mutable std::mutex mutex_;        // guards the next two
  Subject subject_;
  CertificatePtr current_;
  Subscription renewals_;
};

}  // namespace

Result<std::unique_ptr<KeptCertificate>> KeptCertificate::issue(Manager& manager,
                                                                const Subject& subject,
                                                                std::chrono::seconds validity) {
  auto kept = std::make_unique<Kept>(manager, validity);
  OSM_TRY(kept->change_subject(subject));
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

Subject controller_subject(const TrustDomain& domain, const std::string& ns) {
  const std::string name = "osm-controller." + ns;
  return {
      CommonName(name), model::controller_spiffe_id(domain), Usage::kController, {name + ".svc"}};
}

}  // namespace osm::inline v1::certificate
