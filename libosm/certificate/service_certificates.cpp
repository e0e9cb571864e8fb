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

class CachedCertificates final : public ServiceCertificates {
 public:
  explicit CachedCertificates(const ServiceCertificatesOptions& options);
  ~CachedCertificates() override;

  CertificatePtr certificate_for(const ServiceIdentity& identity) override;
  void release(const ServiceIdentity& identity) override;
  Subscription subscribe(std::function<void(const ServiceIdentity&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }
  void set_trust_domain(const TrustDomain& domain) override {
    strand_.post([this, domain] { rename(domain); });
  }

 private:
  // All on the strand.
  void issue(const ServiceIdentity& identity);
  void keep(const ServiceIdentity& identity, const HoldingPtr& holding, CertificatePtr certificate);
  void retry(const ServiceIdentity& identity, const Error& error);
  void rename(const TrustDomain& domain);
  void issue_all();
  void drop(const CommonName& name);
  void forget(const ServiceIdentity& identity, const CertificatePtr& held);
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
  const std::function<seconds()> validity_;
  LogSink& log_;
  MetricsSink& metrics_;
  Notifier<const ServiceIdentity&> changed_;

  mutable std::mutex mutex_;
  std::unordered_map<ServiceIdentity, HoldingPtr> holdings_;  // guarded by mutex_

  TrustDomain trust_domain_;  // these five: on the strand only
  std::unordered_map<CommonName, ServiceIdentity> identities_;
  std::unordered_map<ServiceIdentity, Trouble> troubles_;
  seconds last_validity_;
  Subscription timer_;

  Strand strand_;
  Subscription rotations_;
};

CachedCertificates::CachedCertificates(const ServiceCertificatesOptions& options)
    : manager_(options.manager),
      clock_(options.clock),
      validity_(options.validity),
      log_(options.log),
      metrics_(options.metrics),
      trust_domain_(options.trust_domain),
      last_validity_(validity_()),
      strand_(options.executor) {
  rotations_ = manager_.subscribe([this](const CertificatePtr& rotated) {
    strand_.post([this, rotated] { on_rotated(rotated); });
  });
  strand_.post([this] { check_validity(); });
}

CachedCertificates::~CachedCertificates() {
  rotations_.reset();
  strand_.stop();
}

CertificatePtr CachedCertificates::certificate_for(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  HoldingPtr& holding = holdings_[identity];
  if (!holding) {
    holding = std::make_shared<Holding>();
    strand_.post([this, identity] { issue(identity); });
  }
  return holding->current;
}

// By way of the strand, so that an issuance under way cannot put the name back into the manager.
void CachedCertificates::release(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(identity);
  if (found == holdings_.end()) return;
  strand_.post([this, identity, held = found->second->current] { forget(identity, held); });
  holdings_.erase(found);
}

HoldingPtr CachedCertificates::find(const ServiceIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = holdings_.find(identity);
  return found == holdings_.end() ? nullptr : found->second;
}

void CachedCertificates::issue(const ServiceIdentity& identity) {
  const HoldingPtr holding = find(identity);
  if (!holding) return;
  const Subject subject = subject_of(identity);
  auto issued = manager_.issue_certificate(subject, validity_());
  if (!issued) return retry(identity, issued.error());
  identities_[subject.common_name] = identity;
  keep(identity, holding, std::move(issued).value());
}

void CachedCertificates::keep(const ServiceIdentity& identity, const HoldingPtr& holding,
                              CertificatePtr certificate) {
  const CommonName name = certificate->subject.common_name;
  // A renewal under the name before says nothing of the new one, which is tried again.
  if (name == subject_of(identity).common_name) troubles_.erase(identity);
  CertificatePtr before;
  {
    const std::lock_guard lock(mutex_);
    const auto found = holdings_.find(identity);
    if (found == holdings_.end()) return drop(name);  // released meanwhile
    if (found->second != holding || holding->current == certificate) return;
    before = std::exchange(holding->current, std::move(certificate));
  }
  changed_.notify(identity);
  if (before && before->subject.common_name != name) drop(before->subject.common_name);
}

void CachedCertificates::retry(const ServiceIdentity& identity, const Error& error) {
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

void CachedCertificates::forget(const ServiceIdentity& identity, const CertificatePtr& held) {
  if (find(identity)) return;  // asked for again meanwhile
  troubles_.erase(identity);
  drop(subject_of(identity).common_name);
  if (held) drop(held->subject.common_name);
}

void CachedCertificates::drop(const CommonName& name) {
  identities_.erase(name);
  manager_.release_certificate(name);
}

void CachedCertificates::rename(const TrustDomain& domain) {
  if (domain == trust_domain_) return;
  trust_domain_ = domain;
  issue_all();
}

// One per task, so that others' turns come in between.
void CachedCertificates::issue_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [identity, holding] : holdings_)
    strand_.post([this, name = identity] { issue(name); });
}

void CachedCertificates::on_rotated(const CertificatePtr& rotated) {
  const auto found = identities_.find(rotated->subject.common_name);
  if (found == identities_.end()) return;  // a proxy's, the controller's, or released
  const ServiceIdentity identity = found->second;
  if (const HoldingPtr holding = find(identity)) keep(identity, holding, rotated);
}

// The manager renews on its own with the validity it was asked for last, so it is asked again.
void CachedCertificates::check_validity() {
  const seconds validity = validity_();
  if (validity != last_validity_) {
    last_validity_ = validity;
    issue_all();
  }
  timer_ = strand_.post_after(kValidityCheck, [this] { check_validity(); });
}

}  // namespace

std::unique_ptr<ServiceCertificates> make_service_certificates(
    const ServiceCertificatesOptions& options) {
  return std::make_unique<CachedCertificates>(options);
}

}  // namespace osm::inline v1::certificate
