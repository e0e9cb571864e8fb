// A provider that does everything right but for one defect, with its platform.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "osm/notifier.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

enum class Defect {
  kNone,
  kNeverSyncs,
  kSyncsHalfway,
  kSyncsSilently,
  kSyncsEarly,
  kSilent,
  kAnnouncesFirst,
  kTakesOldForDuplicate,
  kForgetsUnmodified,
  kUnknownIsEmpty,
  kEmptyIsUnknown,
  kIdentityByAddress,
  kMakesIdentityFit,
  kDropsZone,
  kDefaultsWeight,
  kSharesState,
  kFoldsCase,
  kAnnouncesRawNames,
  kFlushes,
  kSeemsHealthy,
  kLosesSilently,
  kNeverReturns,
  kMissesChanges,
  kExpires,
  kBlocks,
  kLocks,
  kOverlaps,
  kThrows,
  kQueues,
  kEndsWithoutWaiting,
  kNeverUnsubscribes,
  kRenames,
};

using Content = std::map<ServiceName, std::vector<Endpoint>>;

class BrokenProvider final : public EndpointsProvider {
 public:
  BrokenProvider(Defect defect, const Clock& clock) : defect_(defect), clock_(clock) {}

  // --- from the platform, one call at a time

  void read_all(const Content& content) {
    std::vector<ServiceName> changed;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [service, endpoints] : here())
        if (!content.contains(service)) changed.push_back(service);
    }
    for (const ServiceName& service : changed) change(service, nullptr);
    for (const auto& [service, endpoints] : content) change(service, &endpoints);
  }
  void change(ServiceName service, const std::vector<Endpoint>* endpoints) {
    if (defect_ != Defect::kAnnouncesRawNames) {
      const auto canonical = parse_service_name(service.ns, service.name);
      if (!canonical.ok()) return;
      if (*canonical != service && defect_ != Defect::kFoldsCase) return;
      service = *canonical;
    }
    if (is_duplicate(service, endpoints)) return;
    if (defect_ == Defect::kAnnouncesFirst) announce({service});
    {
      std::lock_guard lock(mutex_);
      if (endpoints) {
        here()[service] = *endpoints;
      } else {
        here().erase(service);
      }
      ever_.insert(service);
      changed_at_ = clock_.steady_now();
      if (defect_ == Defect::kQueues) queue_.emplace_back(service, here());
    }
    if (defect_ == Defect::kSilent || defect_ == Defect::kAnnouncesFirst) return;
    if (defect_ == Defect::kSyncsSilently && !synced()) return;
    announce({service});
  }
  void set_synced() {
    {
      std::lock_guard lock(mutex_);
      if (std::exchange(synced_, true)) return;
    }
    if (defect_ != Defect::kSyncsSilently) announce({});
  }
  void set_healthy(bool healthy) {
    {
      std::lock_guard lock(mutex_);
      if (!healthy && defect_ == Defect::kFlushes) here().clear();
      if (std::exchange(healthy_, healthy) == healthy) return;
    }
    if (defect_ != Defect::kLosesSilently) announce({});
  }
  bool synced() const {
    std::lock_guard lock(mutex_);
    return synced_;
  }

  // --- the contract

  std::string id() const override {
    return defect_ == Defect::kRenames ? "broken-" + std::to_string(++asked_for_id_) : "broken";
  }
  bool has_synced() const override {
    if (defect_ == Defect::kNeverSyncs) return false;
    return defect_ == Defect::kSyncsEarly || synced();
  }
  bool healthy() const override {
    std::lock_guard lock(mutex_);
    return healthy_ || defect_ == Defect::kSeemsHealthy;
  }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    const bool away = !healthy();
    if (away && defect_ == Defect::kThrows) throw std::runtime_error("connection refused");
    if (away && defect_ == Defect::kBlocks)
      std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::lock_guard lock(mutex_);
    if (defect_ == Defect::kExpires && clock_.steady_now() - changed_at_ > std::chrono::hours(24))
      return std::vector<Endpoint>{};
    return answer(service);
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)> on_change) override {
    if (defect_ != Defect::kEndsWithoutWaiting && defect_ != Defect::kNeverUnsubscribes)
      return changed_.subscribe(std::move(on_change));
    std::lock_guard lock(careless_mutex_);
    careless_[++careless_id_] = std::move(on_change);
    return Subscription(std::shared_ptr<void>(this, [this, id = careless_id_](void*) {
      std::lock_guard ending(careless_mutex_);
      if (defect_ == Defect::kEndsWithoutWaiting) careless_.erase(id);
    }));
  }

 private:
  Content& here() const {
    static Content everywhere;  // of every instance in the process
    return defect_ == Defect::kSharesState ? everywhere : content_;
  }

  std::optional<std::vector<Endpoint>> answer(ServiceName service) const {
    if (defect_ == Defect::kFoldsCase) {
      const auto canonical = parse_service_name(service.ns, service.name);
      if (canonical.ok()) service = *canonical;
    }
    const auto at = here().find(service);
    if (at == here().end()) {
      const auto canonical = parse_service_name(service.ns, service.name);
      const bool plain = canonical.ok() && *canonical == service;
      if (defect_ == Defect::kUnknownIsEmpty && plain && !ever_.contains(service))
        return std::vector<Endpoint>{};
      return std::nullopt;
    }
    if (defect_ == Defect::kEmptyIsUnknown && at->second.empty()) return std::nullopt;
    std::vector<Endpoint> endpoints = at->second;
    // "Not modified", as if whoever asks remembered: often told, known for good.
    if (defect_ == Defect::kForgetsUnmodified && ++told_[{service, endpoints}] > 20)
      return std::vector<Endpoint>{};
    for (Endpoint& endpoint : endpoints) {
      if (defect_ == Defect::kIdentityByAddress)
        endpoint.identity =
            identities_.try_emplace(endpoint.address, endpoint.identity).first->second;
      if (defect_ == Defect::kMakesIdentityFit) endpoint.identity.ns = service.ns;
      if (defect_ == Defect::kDropsZone) endpoint.zone.reset();
      if (defect_ == Defect::kDefaultsWeight && !endpoint.weight && endpoint.port != Port(8080))
        endpoint.weight = 1;
    }
    return endpoints;
  }

  bool is_duplicate(const ServiceName& service, const std::vector<Endpoint>* endpoints) {
    if (defect_ != Defect::kTakesOldForDuplicate || !endpoints) return false;
    auto& before = versions_[service];  // the newest two
    if (!before.empty() && before.front() == *endpoints) return true;
    before.push_back(*endpoints);
    if (before.size() > 2) before.erase(before.begin());
    return false;
  }

  void announce(const std::vector<ServiceName>& changed) {
    if (defect_ == Defect::kLocks) {
      std::lock_guard lock(mutex_);
      changed_.notify(changed);
    } else if (defect_ == Defect::kOverlaps) {
      std::thread other([&] { changed_.notify(changed); });
      changed_.notify(changed);
      other.join();
    } else {
      changed_.notify(changed);
    }
    std::map<int, std::function<void(const std::vector<ServiceName>&)>> careless;
    {
      std::lock_guard lock(careless_mutex_);
      careless = careless_;
    }
    for (const auto& [id, callback] : careless) callback(changed);
  }

  const Defect defect_;
  const Clock& clock_;
  mutable int asked_for_id_ = 0;

  mutable std::mutex mutex_;
  bool synced_ = false;
  bool healthy_ = true;
  mutable Content content_;
  std::set<ServiceName> ever_;
  SteadyTime changed_at_{};
  std::map<ServiceName, std::vector<std::vector<Endpoint>>> versions_;
  mutable std::map<std::pair<ServiceName, std::vector<Endpoint>>, int> told_;
  mutable std::map<std::string, ServiceIdentity> identities_;
  std::vector<std::pair<ServiceName, Content>> queue_;

  Notifier<const std::vector<ServiceName>&> changed_;
  std::mutex careless_mutex_;
  int careless_id_ = 0;
  std::map<int, std::function<void(const std::vector<ServiceName>&)>> careless_;
};

class BrokenPlatform final : public ProviderPlatform {
 public:
  explicit BrokenPlatform(Defect defect) : defect_(defect) {}

  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    auto provider = std::make_unique<BrokenProvider>(defect_, runtime.clock);
    provider_ = provider.get();
    provider_->read_all({});  // what another instance left behind
    if (!reachable_) {
      provider_->set_healthy(false);
    } else if (defect_ == Defect::kSyncsHalfway) {
      const auto half = std::next(content_.begin(), static_cast<long>(content_.size() / 2));
      provider_->read_all({content_.begin(), half});
      provider_->set_synced();
    } else if (defect_ != Defect::kSyncsSilently) {
      look();
    }
    return provider;
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    content_[service] = endpoints;
    if (provider_ && reachable_) provider_->change(service, &endpoints);
  }
  void remove_service(const ServiceName& service) override {
    content_.erase(service);
    if (provider_ && reachable_) provider_->change(service, nullptr);
  }
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!provider_) return;
    if (!reachable) {
      provider_->set_healthy(false);
      return;
    }
    const bool again = provider_->synced();
    if (!again || defect_ != Defect::kMissesChanges) look();
    if (!again || defect_ != Defect::kNeverReturns) provider_->set_healthy(true);
  }
  void pump() override {
    if (reachable_ && (defect_ == Defect::kSyncsHalfway || defect_ == Defect::kSyncsSilently))
      if (std::exchange(pumped_, pumped_ + 1) == 1) look();
  }

 private:
  void look() {
    provider_->read_all(content_);
    provider_->set_synced();
  }

  const Defect defect_;
  Content content_;
  bool reachable_ = true;
  int pumped_ = 0;
  BrokenProvider* provider_ = nullptr;
};

}  // namespace osm::inline v1::testing
