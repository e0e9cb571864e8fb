#include "certificate/service_certificates.hpp"

#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "model/names.hpp"
#include "osm/notifier.hpp"

namespace osm::inline v1::certificate {
namespace {

// After which a common name that another subject holds is asked for again.
constexpr std::chrono::minutes kAskAgain{1};

class ManagedCertificates final : public ServiceCertificates {
 public:
  explicit ManagedCertificates(const ServiceCertificatesOptions& options);
  ~ManagedCertificates() override;

  CertificatePtr certificate_for(const ServiceIdentity& identity) override;
  std::string trust_bundle_pem() const override { return options_.manager.trust_bundle_pem(); }
  void release(const ServiceIdentity& identity) override;
  Subscription subscribe(OnChange on_change) override {
    return changed_.subscribe(std::move(on_change));
  }
  void set_trust_domain(const TrustDomain& domain) override;

 private:
  // On the strand.
  void on_issued(const CertificatePtr& issued);
  void drop_released();
  void ask_again();

  // Under mutex_.
  bool keep(const ServiceIdentity& identity, CertificatePtr& held);
  void show(CertificatePtr& held, CertificatePtr next);
  void drop(const CommonName& name);

  CommonName name_of(const ServiceIdentity& identity) const {
    return model::service_common_name(trust_domain_, identity);
  }

  const ServiceCertificatesOptions options_;
  Notifier<const std::optional<ServiceIdentity>&> changed_;

  mutable std::mutex mutex_;  // over the next five
  TrustDomain trust_domain_;
  std::unordered_map<ServiceIdentity, CertificatePtr> held_;  // null: not issued yet
  std::unordered_map<CommonName, ServiceIdentity> names_;     // that the manager keeps for us
  std::set<CommonName> released_;                             // and soon no more
  std::set<ServiceIdentity> refused_;                         // others hold their names

  Subscription timer_;  // of the strand
  Strand strand_;
  Subscription issued_;
  Subscription ca_;
};

ManagedCertificates::ManagedCertificates(const ServiceCertificatesOptions& options)
    : options_(options),
      trust_domain_(options.trust_domain),
      strand_(options_.runtime.blocking),
      issued_(options_.manager.subscribe([this](const CertificatePtr& issued) {
        strand_.post([this, issued] { on_issued(issued); });
      })),
      ca_(options_.manager.subscribe_ca(
          [this] { strand_.post([this] { changed_.notify(std::nullopt); }); })) {}

ManagedCertificates::~ManagedCertificates() {
  issued_.reset();
  ca_.reset();
  strand_.stop();
  for (const auto& [name, identity] : names_) options_.manager.release_certificate(name);
}

CertificatePtr ManagedCertificates::certificate_for(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = held_.try_emplace(identity);
  if (fresh) (void)keep(identity, at->second);
  return at->second;
}

// A certificate in use is dropped by way of the strand, so that an identity that is asked for again
// right away finds it.
void ManagedCertificates::release(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(identity);
  if (found == held_.end()) return;
  const CertificatePtr held = std::move(found->second);
  held_.erase(found);
  refused_.erase(identity);
  if (!held) return drop(name_of(identity));
  released_.insert({name_of(identity), held->subject.common_name});
  strand_.post([this] { drop_released(); });
}

void ManagedCertificates::set_trust_domain(const TrustDomain& domain) {
  const std::lock_guard lock(mutex_);
  const TrustDomain before = std::exchange(trust_domain_, domain);
  if (before == domain) return;
  for (auto& [identity, held] : held_) {
    const CommonName old = model::service_common_name(before, identity);
    if (!held || held->subject.common_name != old) drop(old);
    if (keep(identity, held))
      strand_.post([this, changed = std::optional(identity)] { changed_.notify(changed); });
  }
}

void ManagedCertificates::on_issued(const CertificatePtr& issued) {
  const CommonName& name = issued->subject.common_name;
  std::optional<ServiceIdentity> identity;
  {
    const std::lock_guard lock(mutex_);
    const auto named = names_.find(name);
    if (named == names_.end()) return;  // a proxy's, the controller's, or released
    identity = named->second;
    const auto found = held_.find(*identity);
    if (found == held_.end()) return;
    CertificatePtr& held = found->second;
    if (name != name_of(*identity) && (!held || held->subject.common_name != name)) return;
    show(held, issued);
  }
  changed_.notify(identity);
}

// Result: `held` is another certificate now.
bool ManagedCertificates::keep(const ServiceIdentity& identity, CertificatePtr& held) {
  const CommonName name = name_of(identity);
  auto kept = options_.manager.keep_certificate(
      {.common_name = name, .spiffe_id = spiffe_id(trust_domain_, identity)}, options_.validity);
  if (!kept.ok()) {
    if (refused_.insert(identity).second)
      options_.runtime.log.warning("service certificate not issued; it is tried again",
                                   {{"identity", identity.str()}, {"error", kept.error().text()}});
    strand_.post([this] {
      if (!timer_) timer_ = strand_.post_after(kAskAgain, [this] { ask_again(); });
    });
    return false;
  }
  refused_.erase(identity);
  released_.erase(name);
  names_[name] = identity;
  if (!*kept || *kept == held) return false;
  show(held, *std::move(kept));
  return true;
}

void ManagedCertificates::show(CertificatePtr& held, CertificatePtr next) {
  const CertificatePtr before = std::exchange(held, std::move(next));
  if (before && before->subject.common_name != held->subject.common_name)
    drop(before->subject.common_name);
}

void ManagedCertificates::drop(const CommonName& name) {
  if (names_.erase(name) > 0) options_.manager.release_certificate(name);
}

void ManagedCertificates::drop_released() {
  const std::lock_guard lock(mutex_);
  for (const CommonName& name : std::exchange(released_, {})) drop(name);
}

void ManagedCertificates::ask_again() {
  timer_.reset();
  std::vector<ServiceIdentity> issued;
  {
    const std::lock_guard lock(mutex_);
    for (const ServiceIdentity& identity : std::set(refused_))
      if (keep(identity, held_.at(identity))) issued.push_back(identity);
  }
  for (const ServiceIdentity& identity : issued) changed_.notify(identity);
}

}  // namespace

std::unique_ptr<ServiceCertificates> make_service_certificates(
    const ServiceCertificatesOptions& options) {
  return std::make_unique<ManagedCertificates>(options);
}

}  // namespace osm::inline v1::certificate
