#include "certificate/service_certificates.hpp"

#include <utility>
#include <vector>

#include "model/names.hpp"

namespace osm::inline v1::certificate {
namespace {

// Pause before asking again for a common name that another subject holds.
constexpr std::chrono::minutes kAskAgain{1};

}  // namespace

Subject service_subject(const TrustDomain& domain, const ServiceIdentity& identity) {
  const CommonName name = model::service_common_name(domain, identity);
  Subject subject{.common_name = name, .spiffe_id = spiffe_id(domain, identity)};
  // Unless it is too long. In a trust domain "svc" it could be the controller's DNS name.
  if (is_dns_subdomain(name.str()) && domain.str() != "svc") subject.dns_names = {name.str()};
  return subject;
}

ServiceCertificates::ServiceCertificates(const ServiceCertificatesOptions& options)
    : options_(options),
      trust_domain_(options.trust_domain),
      strand_(options_.runtime.blocking),
      issued_(options_.manager.subscribe([this](const CertificatePtr& issued) {
        strand_.post([this, issued] { on_issued(issued); });
      })),
      ca_(options_.manager.subscribe_ca(
          [this] { strand_.post([this] { changed_.notify(std::nullopt); }); })) {}

ServiceCertificates::~ServiceCertificates() {
  issued_.reset();
  ca_.reset();
  strand_.stop();
  for (const auto& [name, identity] : names_) options_.manager.release_certificate(name);
}

CertificatePtr ServiceCertificates::certificate_for(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = held_.try_emplace(identity);
  if (fresh) (void)keep(identity, at->second);
  return at->second;
}

// A certificate in use is dropped by way of the strand, so that an identity that is asked for again
// right away finds it.
void ServiceCertificates::release(const ServiceIdentity& identity) {
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

void ServiceCertificates::set_trust_domain(const TrustDomain& domain) {
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

void ServiceCertificates::on_issued(const CertificatePtr& issued) {
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

CommonName ServiceCertificates::name_of(const ServiceIdentity& identity) const {
  return model::service_common_name(trust_domain_, identity);
}

// Result: `held` is another certificate now.
bool ServiceCertificates::keep(const ServiceIdentity& identity, CertificatePtr& held) {
  const CommonName name = name_of(identity);
  const Subject subject = service_subject(trust_domain_, identity);
  auto kept = options_.manager.keep_certificate(subject, options_.validity);
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

void ServiceCertificates::show(CertificatePtr& held, CertificatePtr next) {
  const CertificatePtr before = std::exchange(held, std::move(next));
  if (before && before->subject.common_name != held->subject.common_name)
    drop(before->subject.common_name);
}

void ServiceCertificates::drop(const CommonName& name) {
  if (names_.erase(name) > 0) options_.manager.release_certificate(name);
}

void ServiceCertificates::drop_released() {
  const std::lock_guard lock(mutex_);
  for (const CommonName& name : std::exchange(released_, {})) drop(name);
}

void ServiceCertificates::ask_again() {
  timer_.reset();
  std::vector<ServiceIdentity> issued;
  {
    const std::lock_guard lock(mutex_);
    for (const ServiceIdentity& identity : std::set(refused_))
      if (keep(identity, held_.at(identity))) issued.push_back(identity);
  }
  for (const ServiceIdentity& identity : issued) changed_.notify(identity);
}

}  // namespace osm::inline v1::certificate
