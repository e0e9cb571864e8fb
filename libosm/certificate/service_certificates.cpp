#include "certificate/service_certificates.hpp"

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "certificate/jitter.hpp"
#include "model/names.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::certificate {
namespace {

using std::chrono::seconds;

constexpr std::chrono::minutes kValidityCheck{1};

// An identity that was asked for and not released.
struct Holding {
  CertificatePtr current;  // null while it is being issued for the first time
};
using HoldingPtr = std::shared_ptr<Holding>;

struct Trouble {
  unsigned failures = 0;  // in a row
  Subscription retry;
};

class ServiceCertificates final : public model::SecretSource {
 public:
  explicit ServiceCertificates(const ServiceCertificatesOptions& options);
  ~ServiceCertificates() override;

  CertificatePtr certificate_for(const ServiceIdentity& identity) override;
  void release(const ServiceIdentity& identity) override;
  Subscription subscribe(std::function<void(const ServiceIdentity&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  // All on the strand.
  void issue(const ServiceIdentity& identity);
  void keep(const ServiceIdentity& identity, const HoldingPtr& holding, CertificatePtr certificate);
  void retry(const ServiceIdentity& identity, const Error& error);
  void forget(const ServiceIdentity& identity);
  void on_rotated(const CertificatePtr& rotated);
  void check_validity();

  HoldingPtr find(const ServiceIdentity& identity) const;
  Subject subject_of(const ServiceIdentity& identity) const {
    return {.common_name = model::service_common_name(trust_domain_, identity),
            .spiffe_id = spiffe_id(trust_domain_, identity),
            .usage = Usage::kWorkload};
  }

  Manager& manager_;
  const Clock& clock_;
  const TrustDomain trust_domain_;
  const std::function<seconds()> validity_;
  LogSink& log_;
  MetricsSink& metrics_;
  Notifier<const ServiceIdentity&> changed_;

  mutable std::mutex mutex_;
  std::unordered_map<ServiceIdentity, HoldingPtr> holdings_;  // guarded by mutex_

  std::unordered_map<CommonName, ServiceIdentity> identities_;  // these four: on the strand only
  std::unordered_map<ServiceIdentity, Trouble> troubles_;
  seconds last_validity_;
  Subscription timer_;

  Strand strand_;
  Subscription rotations_;
};

ServiceCertificates::ServiceCertificates(const ServiceCertificatesOptions& options)
    : manager_(options.manager),
      clock_(options.clock),
      trust_domain_(options.trust_domain),
      validity_(options.validity),
      log_(options.log),
      metrics_(options.metrics),
      last_validity_(validity_()),
      strand_(options.executor) {
  rotations_ = manager_.subscribe([this](const CertificatePtr& rotated) {
    strand_.post([this, rotated] { on_rotated(rotated); });
  });
  strand_.post([this] { check_validity(); });
}

ServiceCertificates::~ServiceCertificates() {
  rotations_.reset();
  strand_.stop();
}

CertificatePtr ServiceCertificates::certificate_for(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  HoldingPtr& holding = holdings_[identity];
  if (!holding) {
    holding = std::make_shared<Holding>();
    strand_.post([this, identity] { issue(identity); });
  }
  return holding->current;
}

// By way of the strand, so that an issuance under way cannot put the name back into the manager.
void ServiceCertificates::release(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(identity);
  if (found == holdings_.end()) return;
  holdings_.erase(found);
  strand_.post([this, identity] { forget(identity); });
}

HoldingPtr ServiceCertificates::find(const ServiceIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(identity);
  return found == holdings_.end() ? nullptr : found->second;
}

void ServiceCertificates::issue(const ServiceIdentity& identity) {
  const HoldingPtr holding = find(identity);
  if (!holding) return;
  const Subject subject = subject_of(identity);
  identities_[subject.common_name] = identity;
  auto issued = manager_.issue_certificate(subject, validity_());
  if (issued)
    keep(identity, holding, std::move(issued).value());
  else
    retry(identity, issued.error());
}

void ServiceCertificates::keep(const ServiceIdentity& identity, const HoldingPtr& holding,
                               CertificatePtr certificate) {
  troubles_.erase(identity);
  {
    const std::lock_guard lock(mutex_);
    const auto found = holdings_.find(identity);
    if (found == holdings_.end() || found->second != holding) return;  // released meanwhile
    if (holding->current == certificate) return;
    holding->current.swap(certificate);
  }
  changed_.notify(identity);
}

void ServiceCertificates::retry(const ServiceIdentity& identity, const Error& error) {
  Trouble& trouble = troubles_[identity];
  ++trouble.failures;
  metrics_.add("osm_service_cert_failed_count", {}, 1);
  if (trouble.failures == 1)  // further ones are counted
    log_.warning("service certificate not issued; it is tried again",
                 {{"identity", identity.str()}, {"error", error.text()}});
  // Identities that failed together come back apart, and each at another point every time.
  const std::size_t spread =
      std::hash<ServiceIdentity>{}(identity)*0x9e3779b97f4a7c15ULL *
      (2 * static_cast<std::size_t>(clock_.steady_now().time_since_epoch().count()) + 1);
  trouble.retry = strand_.post_after(backoff(trouble.failures, unit_interval(spread)),
                                     [this, identity] { issue(identity); });
}

void ServiceCertificates::forget(const ServiceIdentity& identity) {
  if (find(identity)) return;  // asked for again meanwhile
  const CommonName name = model::service_common_name(trust_domain_, identity);
  identities_.erase(name);
  troubles_.erase(identity);
  manager_.release_certificate(name);
}

void ServiceCertificates::on_rotated(const CertificatePtr& rotated) {
  const auto found = identities_.find(rotated->subject.common_name);
  if (found == identities_.end()) return;  // a proxy's, the controller's, or released
  const ServiceIdentity identity = found->second;
  if (const HoldingPtr holding = find(identity)) keep(identity, holding, rotated);
}

// The manager renews on its own with the validity it was asked for last, so it is asked again.
void ServiceCertificates::check_validity() {
  const seconds validity = validity_();
  if (validity != last_validity_) {
    last_validity_ = validity;
    const std::lock_guard lock(mutex_);
    for (const auto& [identity, holding] : holdings_)
      strand_.post([this, name = identity] { issue(name); });
  }
  timer_ = strand_.post_after(kValidityCheck, [this] { check_validity(); });
}

}  // namespace

std::unique_ptr<model::SecretSource> make_service_certificates(
    const ServiceCertificatesOptions& options) {
  return std::make_unique<ServiceCertificates>(options);
}

}  // namespace osm::inline v1::certificate
