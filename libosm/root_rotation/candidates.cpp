#include "root_rotation/candidates.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/maps.hpp"
#include "base/openssl.hpp"
#include "root_rotation/root_rules.hpp"

namespace osm::inline v1::root_rotation {
namespace {

using certificate::Issuer;

constexpr std::chrono::seconds kAskAgain{15};  // after a CA failed to answer

// The reason why `bundle_pem` must not become trusted for this object; empty: none. Whoever answers
// at an address that is Vault's, or takes the name of an Issuer, would otherwise be trusted.
std::string unpinned(const MeshRootCertificate& root, const std::string& bundle_pem) {
  if (root.root_fingerprints.empty() && std::holds_alternative<TresorProvider>(root.provider))
    return {};
  const openssl::CleanErrorQueue clean;
  const auto certificates = openssl::parse_certificates(bundle_pem);
  if (!certificates.ok()) return certificates.error().text();
  for (const openssl::X509Handle& certificate : *certificates) {
    const auto fingerprint = openssl::fingerprint(*certificate);
    if (!fingerprint.ok()) return fingerprint.error().text();
    if (std::ranges::find(root.root_fingerprints, *fingerprint) == root.root_fingerprints.end())
      return "its CA shows a root with SHA-256 " + *fingerprint +
             ": if that is the CA's own fingerprint, add it to spec.rootFingerprints";
  }
  return {};
}

}  // namespace

bool wait_until_synced(MeshSpec& spec, std::chrono::seconds bound) {
  std::mutex mutex;
  std::condition_variable changed;
  const Subscription subscription = spec.subscribe([&](const auto&) {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, bound, [&] { return spec.has_synced(); });
}

void Candidates::ask(const std::vector<RootRecord>& records, const TrustDomain& signing) {
  std::map<std::string, Candidate> known = std::exchange(candidates_, {});
  for (const auto& described : options_.spec.list_root_certificates()) {
    MeshRootCertificate root = *described;
    if (root.trust_domain == TrustDomain()) root.trust_domain = signing;
    bool needed = root.role != RootRole::kInactive;
    for (const RootRecord& recorded : records)
      if (recorded.name == root.name && is_trusted(recorded.state)) {
        root.trust_domain = recorded.trust_domain;  // a root in use keeps its domain
        needed = true;  // a draining root signs the control plane's own certificate
      }
    Candidate& candidate = candidates_[described->name];
    if (Candidate* before = find_in(known, described->name);
        before && before->described.provider == described->provider &&
        before->domain == root.trust_domain)
      candidate = std::move(*before);
    candidate.domain = root.trust_domain;
    candidate.described = *described;
    if (!candidate.issuer && needed) open(candidate, root);
  }
}

void Candidates::open(Candidate& candidate, const MeshRootCertificate& root) {
  const SteadyTime now = options_.runtime.clock.steady_now();
  if (candidate.asked_at != SteadyTime{} && now - candidate.asked_at < kAskAgain) return;
  candidate.asked_at = now;
  const std::string before = std::exchange(candidate.fault, {});
  if (auto opened = open_allowed(root); opened.ok()) {
    candidate.issuer = *std::move(opened);
  } else {
    candidate.fault = opened.error().text();
  }
  if (!candidate.fault.empty() && candidate.fault != before)
    options_.runtime.log.warning("a root of the mesh cannot be used",
                                 {{"root", root.name}, {"cause", candidate.fault}});
}

Result<std::shared_ptr<Issuer>> Candidates::open_allowed(const MeshRootCertificate& root) const {
  OSM_TRY(MeshRootCertificate checked, check_root(options_.rules, root));
  return options_.open(AllowedRoot(std::move(checked)));
}

std::vector<RootWish> Candidates::wishes() const {
  std::vector<RootWish> wishes;
  bool others = false;
  for (const auto& [name, candidate] : candidates_) {
    const MeshRootCertificate& described = candidate.described;
    others = others || described.role == RootRole::kActive;
    std::string bundle = candidate.issuer ? candidate.issuer->trust_bundle_pem() : "";
    std::string fault = candidate.issuer ? unpinned(described, bundle) : candidate.fault;
    if (!fault.empty()) bundle.clear();
    wishes.push_back({.name = name,
                      .role = described.role,
                      .bundle_pem = std::move(bundle),
                      .fault = std::move(fault),
                      .trust_domain = described.trust_domain == TrustDomain()
                                          ? candidate.domain
                                          : described.trust_domain});
  }
  wishes.push_back({.name = kOwnRoot,
                    .role = others ? RootRole::kInactive : RootRole::kActive,
                    .bundle_pem = options_.own->trust_bundle_pem(),
                    .fault = {},
                    .trust_domain = options_.trust_domain});
  return wishes;
}

std::shared_ptr<Issuer> Candidates::issuer_of(const std::string& name) const {
  if (name == kOwnRoot) return options_.own;
  const Candidate* candidate = find_in(candidates_, name);
  return candidate ? candidate->issuer : nullptr;
}

Result<std::shared_ptr<Issuer>> Candidates::signer(const std::string& name) const {
  if (std::shared_ptr<Issuer> issuer = issuer_of(name)) return issuer;
  const Candidate* candidate = find_in(candidates_, name);
  const std::string signs = "MeshRootCertificate " + name + " signs, and ";
  if (candidate)
    return Error{ErrorCode::kUnavailable, signs + "cannot be used: " + candidate->fault};
  return Error{ErrorCode::kNotFound, signs + "is gone: create it again as it was"};
}

std::string Candidates::role_of(const std::string& name) const {
  const Candidate* candidate = find_in(candidates_, name);
  if (!candidate) return "";
  const RootRole role = candidate->described.role;
  if (role == RootRole::kActive) return "active";
  return role == RootRole::kPassive ? "passive" : "inactive";
}

}  // namespace osm::inline v1::root_rotation
