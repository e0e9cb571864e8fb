#include "certificate/service_certificates.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "certificate/x509.hpp"
#include "model/names.hpp"

namespace osm::inline v1::certificate {
namespace {

// Pause before asking again for a common name that another subject holds.
constexpr std::chrono::minutes kAskAgain{1};
// Bounds of the chains of intermediates that are remembered; one in bytes.
constexpr std::size_t kMaxChains = 32;
constexpr std::size_t kMaxChainBytes = 16 * 1024;

}  // namespace

Subject service_subject(const TrustDomain& domain, const ServiceIdentity& identity) {
  const CommonName name = model::service_common_name(domain, identity);
  Subject subject{.common_name = name, .spiffe_id = spiffe_id(domain, identity)};
  // Unless it is too long. In a trust domain "svc" it could be the controller's DNS name.
  if (is_dns_name(name.str()) && domain.str() != "svc") subject.dns_names = {name.str()};
  return subject;
}

// The manager may keep a name for others when this source has stopped. Then the last value counts.
struct ServiceCertificates::Validity {
  std::chrono::seconds read() {
    const std::lock_guard lock(mutex);
    if (source) last = source();
    return last;
  }
  void stop() {
    const std::lock_guard lock(mutex);
    if (source) last = source();
    source = nullptr;
  }

  std::mutex mutex;
  std::function<std::chrono::seconds()> source;
  std::chrono::seconds last{};
};

ServiceCertificates::ServiceCertificates(const ServiceCertificatesOptions& options)
    : options_(options),
      validity_(std::make_shared<Validity>()),
      trust_domain_(options.trust_domain),
      strand_(options_.runtime.blocking),
      issued_(options_.manager.subscribe([this](const CertificatePtr& issued) {
        strand_.post([this, issued] { on_issued(issued); });
      })),
      ca_(options_.manager.subscribe_ca(
          [this] { strand_.post([this] { changed_.notify(std::nullopt); }); })) {
  validity_->source = options_.validity;
}

ServiceCertificates::~ServiceCertificates() { stop(); }

void ServiceCertificates::stop() {
  issued_.reset();
  ca_.reset();
  strand_.stop();
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return;
    held_.clear();
    refused_.clear();
    released_.clear();
    drop_all();
  }
  validity_->stop();
}

std::string ServiceCertificates::trust_bundle_pem() const {
  const std::lock_guard lock(mutex_);
  return stopped_ ? std::string() : present_bundle();
}

// Handshakes ask for the bundle too: while it has not changed, each was made with the present one.
std::string ServiceCertificates::present_bundle() const {
  std::string bundle = options_.manager.trust_bundle_pem();
  if (first_bundle_.empty()) first_bundle_ = bundle;
  bundle_changed_ |= bundle != first_bundle_;
  return bundle;
}

// A peer that resumes a TLS session sends no chain. It sent it in the first handshake.
void ServiceCertificates::note_chain(const std::string& chain_pem) const {
  if (chain_pem.empty() || chain_pem.size() > kMaxChainBytes) return;
  if (std::ranges::find(chains_, chain_pem) != chains_.end()) return;
  if (chains_.size() >= kMaxChains) chains_.erase(chains_.begin());
  chains_.push_back(chain_pem);
}

Status ServiceCertificates::check_peer(const std::string& leaf_pem,
                                       const std::string& chain_pem) const {
  std::string bundle;
  std::vector<std::string> known{chain_pem};
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return {};
    bundle = present_bundle();
    note_chain(chain_pem);
    if (!bundle_changed_) return {};
    if (chain_pem.empty()) known.assign(chains_.begin(), chains_.end());
  }
  const openssl::CleanErrorQueue clean;
  OSM_TRY(const openssl::X509Handle leaf, openssl::parse_certificate(leaf_pem));
  const WallTime now = options_.runtime.clock.wall_now();
  if (now >= openssl::not_after(*leaf)) return {};  // it has an error of its own
  std::vector<openssl::X509Handle> between;
  for (const std::string& chain : known) {
    if (chain.empty()) continue;
    OSM_TRY(std::vector<openssl::X509Handle> read, openssl::parse_certificates(chain));
    std::ranges::move(read, std::back_inserter(between));
  }
  OSM_TRY(const TrustedRoots::Roots roots, roots_.of(bundle));
  if (const auto verified = x509::verified_chain(*leaf, between, *roots, now); !verified)
    return Error{ErrorCode::kInvalidCertificate,
                 "no root that the mesh trusts now has signed the proxy certificate (" +
                     verified.error().message + "); issue a new one (osm vm bootstrap)"};
  return {};
}

CertificatePtr ServiceCertificates::certificate_for(const ServiceIdentity& identity) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return nullptr;
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
  if (before == domain || stopped_) return;
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
  auto kept = options_.manager.keep_certificate(subject, [v = validity_] { return v->read(); });
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
  // A name that is still ours, such as one that waits for its release, is kept once.
  if (!names_.emplace(name, identity).second) options_.manager.release_certificate(name);
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

void ServiceCertificates::drop_all() {
  for (const auto& [name, identity] : std::exchange(names_, {}))
    options_.manager.release_certificate(name);
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
