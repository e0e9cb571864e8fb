#include "osm/testing/memory_certificate_manager.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "osm/notifier.hpp"

namespace osm::inline v1::testing {

using certificate::Certificate;
using certificate::CertificatePtr;
using certificate::PrivateKey;
using certificate::Subject;

struct MemoryCertificateManager::State {
  struct Entry {
    std::chrono::seconds validity;
    CertificatePtr certificate;
  };

  explicit State(const Clock& c) : clock(c) {}

  Result<CertificatePtr> make(const Subject& subject, std::chrono::seconds validity) {
    if (failure) return *failure;
    const std::string number = std::to_string(++issued);
    auto made = std::make_shared<Certificate>();
    made->subject = subject;
    made->chain_pem = "chain " + number + " of " + subject.common_name.str();
    made->private_key = PrivateKey("key " + number + " of " + subject.common_name.str());
    made->trust_bundle_pem = trust_bundle;
    made->serial_number = number;
    made->fingerprint = "fingerprint-" + number;
    made->issuer_id = issuer_id;
    made->not_before = clock.wall_now();
    made->not_after = made->not_before + validity;
    return CertificatePtr(std::move(made));
  }

  std::shared_ptr<Certificate> with_bundle(const Certificate& old) const {
    auto made = std::make_shared<Certificate>();
    made->subject = old.subject;
    made->chain_pem = old.chain_pem;
    made->private_key = PrivateKey(old.private_key.pem());
    made->trust_bundle_pem = trust_bundle;
    made->serial_number = old.serial_number;
    made->fingerprint = old.fingerprint;
    made->issuer_id = old.issuer_id;
    made->not_before = old.not_before;
    made->not_after = old.not_after;
    return made;
  }

  const Clock& clock;
  mutable std::mutex mutex;
  std::map<CommonName, Entry> entries;
  std::string trust_bundle = "roots";
  std::string issuer_id = "memory";
  std::optional<Error> failure;
  int issued = 0;
  Notifier<const CertificatePtr&> notifier;
};

MemoryCertificateManager::MemoryCertificateManager(const Clock& clock)
    : state_(std::make_unique<State>(clock)) {}
MemoryCertificateManager::~MemoryCertificateManager() = default;

void MemoryCertificateManager::set_failure(std::optional<Error> failure) {
  std::lock_guard lock(state_->mutex);
  state_->failure = std::move(failure);
}

void MemoryCertificateManager::set_trust_bundle_pem(std::string pem) {
  std::vector<CertificatePtr> replaced;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->trust_bundle == pem) return;
    state_->trust_bundle = std::move(pem);
    for (auto& [name, entry] : state_->entries) {
      entry.certificate = state_->with_bundle(*entry.certificate);
      replaced.push_back(entry.certificate);
    }
  }
  for (const CertificatePtr& certificate : replaced) state_->notifier.notify(certificate);
}

void MemoryCertificateManager::set_issuer_id(std::string id) {
  std::lock_guard lock(state_->mutex);
  state_->issuer_id = std::move(id);
}

int MemoryCertificateManager::issued() const {
  std::lock_guard lock(state_->mutex);
  return state_->issued;
}

Result<CertificatePtr> MemoryCertificateManager::issue_certificate(const Subject& subject,
                                                                   std::chrono::seconds validity) {
  CertificatePtr replaced;
  {
    std::lock_guard lock(state_->mutex);
    const auto cached = state_->entries.find(subject.common_name);
    const bool known = cached != state_->entries.end();
    if (known && cached->second.certificate->subject != subject) {
      return Error{ErrorCode::kInvalidArgument,
                   "the common name " + subject.common_name.str() +
                       " belongs to another subject; release it first"};
    }
    if (known && cached->second.certificate->not_after > state_->clock.wall_now())
      return cached->second.certificate;
    auto made = state_->make(subject, validity);
    if (!made.ok()) return made;
    state_->entries.insert_or_assign(subject.common_name, State::Entry{validity, *made});
    if (!known) return made;
    replaced = *std::move(made);
  }
  state_->notifier.notify(replaced);
  return replaced;
}

Result<CertificatePtr> MemoryCertificateManager::rotate_certificate(const CommonName& common_name) {
  CertificatePtr replaced;
  {
    std::lock_guard lock(state_->mutex);
    const auto cached = state_->entries.find(common_name);
    if (cached == state_->entries.end())
      return Error{ErrorCode::kNotFound, "no certificate is cached for " + common_name.str()};
    auto made = state_->make(cached->second.certificate->subject, cached->second.validity);
    if (!made.ok()) return made;
    replaced = cached->second.certificate = *std::move(made);
  }
  state_->notifier.notify(replaced);
  return replaced;
}

Result<CertificatePtr> MemoryCertificateManager::certify_request(const Subject& subject,
                                                                 const std::string&,
                                                                 std::chrono::seconds validity) {
  std::lock_guard lock(state_->mutex);
  auto made = state_->make(subject, validity);
  if (!made.ok()) return made;
  auto without_key = state_->with_bundle(**made);
  without_key->private_key = {};
  return CertificatePtr(std::move(without_key));
}

void MemoryCertificateManager::release_certificate(const CommonName& common_name) {
  std::lock_guard lock(state_->mutex);
  state_->entries.erase(common_name);
}

std::vector<CertificatePtr> MemoryCertificateManager::list_certificates() const {
  std::lock_guard lock(state_->mutex);
  std::vector<CertificatePtr> out;
  for (const auto& [name, entry] : state_->entries) out.push_back(entry.certificate);
  return out;
}

std::string MemoryCertificateManager::trust_bundle_pem() const {
  std::lock_guard lock(state_->mutex);
  return state_->trust_bundle;
}

std::string MemoryCertificateManager::issuer_id() const {
  std::lock_guard lock(state_->mutex);
  return state_->issuer_id;
}

Subscription MemoryCertificateManager::subscribe(
    std::function<void(const CertificatePtr& rotated)> on_rotated) {
  return state_->notifier.subscribe(std::move(on_rotated));
}

}  // namespace osm::inline v1::testing
