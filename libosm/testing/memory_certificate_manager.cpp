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
    std::size_t keepers = 0;  // calls of keep_certificate()
    bool issued = false;      // by issue_certificate(), when there was no keeper
  };

  explicit State(const Clock& c) : clock(c) {}

  Result<CertificatePtr> make(const Subject& subject, std::chrono::seconds validity,
                              bool with_key = true) {
    if (failure) return *failure;
    const std::string number = std::to_string(++issued);
    auto made = std::make_shared<Certificate>();
    made->subject = subject;
    made->chain_pem = "chain " + number + " of " + subject.common_name.str();
    if (with_key)
      made->private_key = PrivateKey("key " + number + " of " + subject.common_name.str());
    made->serial_number = number;
    made->fingerprint = "fingerprint-" + number;
    made->issuer_id = issuer_id;
    made->not_before = clock.wall_now();
    made->not_after = made->not_before + validity;
    return CertificatePtr(std::move(made));
  }

  // Result: the cached certificate, or a new one; `replaced` is to be announced then.
  Result<CertificatePtr> cached(const Subject& subject, std::chrono::seconds validity,
                                CertificatePtr& replaced) {
    const auto found = entries.find(subject.common_name);
    const bool known = found != entries.end();
    if (known && found->second.certificate->subject != subject) {
      return Error{ErrorCode::kInvalidArgument,
                   "the common name " + subject.common_name.str() +
                       " belongs to another subject; release it first"};
    }
    if (known && found->second.certificate->not_after > clock.wall_now())
      return found->second.certificate;
    OSM_TRY(CertificatePtr fresh, make(subject, validity));
    Entry& entry = entries[subject.common_name];
    entry.validity = validity;
    entry.certificate = fresh;
    if (known) replaced = fresh;
    return fresh;
  }

  void set_ca(std::string State::*member, std::string value) {
    {
      std::lock_guard lock(mutex);
      if (std::exchange(this->*member, value) == value) return;
    }
    ca_notifier.notify();
  }

  const Clock& clock;
  mutable std::mutex mutex;
  std::map<CommonName, Entry> entries;
  std::string trust_bundle = "roots";
  std::string issuer_id = "memory";
  std::optional<Error> failure;
  int issued = 0;
  Notifier<const CertificatePtr&> notifier;
  Notifier<> ca_notifier;
};

MemoryCertificateManager::MemoryCertificateManager(const Clock& clock)
    : state_(std::make_unique<State>(clock)) {}
MemoryCertificateManager::~MemoryCertificateManager() = default;

void MemoryCertificateManager::set_failure(std::optional<Error> failure) {
  std::lock_guard lock(state_->mutex);
  state_->failure = std::move(failure);
}

void MemoryCertificateManager::set_trust_bundle_pem(std::string pem) {
  state_->set_ca(&State::trust_bundle, std::move(pem));
}

void MemoryCertificateManager::set_issuer_id(std::string id) {
  state_->set_ca(&State::issuer_id, std::move(id));
}

int MemoryCertificateManager::issued() const {
  std::lock_guard lock(state_->mutex);
  return state_->issued;
}

Result<CertificatePtr> MemoryCertificateManager::issue_certificate(const Subject& subject,
                                                                   std::chrono::seconds validity,
                                                                   const certificate::Requester&) {
  CertificatePtr replaced;
  std::unique_lock lock(state_->mutex);
  auto issued = state_->cached(subject, validity, replaced);
  if (issued) {
    State::Entry& entry = state_->entries.at(subject.common_name);
    entry.issued |= entry.keepers == 0;
  }
  lock.unlock();
  if (replaced) state_->notifier.notify(replaced);
  return issued;
}

Result<CertificatePtr> MemoryCertificateManager::keep_certificate(
    const Subject& subject, std::function<std::chrono::seconds()> validity) {
  const std::chrono::seconds life = validity();
  CertificatePtr replaced;
  std::unique_lock lock(state_->mutex);
  auto issued = state_->cached(subject, life, replaced);
  if (issued) ++state_->entries.at(subject.common_name).keepers;
  lock.unlock();
  if (replaced) state_->notifier.notify(replaced);
  const bool pending = !issued.ok() && issued.error().code != ErrorCode::kInvalidArgument;
  return pending ? Result(CertificatePtr()) : std::move(issued);
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
                                                                 std::chrono::seconds validity,
                                                                 const certificate::Requester&) {
  std::lock_guard lock(state_->mutex);
  return state_->make(subject, validity, false);
}

void MemoryCertificateManager::release_certificate(const CommonName& common_name) {
  std::lock_guard lock(state_->mutex);
  const auto found = state_->entries.find(common_name);
  if (found == state_->entries.end()) return;
  State::Entry& entry = found->second;
  if (!std::exchange(entry.issued, false) && entry.keepers > 0) --entry.keepers;
  if (entry.keepers == 0) state_->entries.erase(found);
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
    std::function<void(const CertificatePtr& issued)> on_issued) {
  return state_->notifier.subscribe(std::move(on_issued));
}

Subscription MemoryCertificateManager::subscribe_ca(std::function<void()> on_change) {
  return state_->ca_notifier.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
