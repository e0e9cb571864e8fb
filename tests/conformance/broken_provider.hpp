// A provider that does everything right but for one defect, with its platform.
#pragma once

#include <algorithm>
#include <chrono>
#include <latch>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory_platform.hpp"
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
  kListsHalfTheWorkloads,
  kListsInReverse,
  kFindsOther,
  kAccountByAddress,
  kKeepsServices,
  kDropsCopies,
  kChangesKind,
  kWorkloadsSilently,
  kForgetsWorkloads,
  kThrowsForWorkloads,
  kEndsWorkloadsWithoutWaiting,
};

using Content = std::map<ServiceName, std::vector<Endpoint>>;

class BrokenProvider final : public EndpointsProvider, public WorkloadProvider {
 public:
  BrokenProvider(Defect defect, std::chrono::milliseconds blocked, const Clock& clock)
      : defect_(defect), blocked_(blocked), clock_(clock) {}

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
  void change_workload(const WorkloadName& name, const Workload* workload) {
    {
      std::lock_guard lock(mutex_);
      if (workload) {
        const auto former = workloads_.find(name);
        Workload kept = *workload;
        if (defect_ == Defect::kAccountByAddress)
          kept.account = accounts_.try_emplace(kept.address, kept.account).first->second;
        if (former != workloads_.end() && defect_ == Defect::kKeepsServices)
          kept.services = former->second.services;
        if (former != workloads_.end() && defect_ == Defect::kChangesKind)
          kept.kind = WorkloadKind::kPod;
        workloads_[name] = kept;
      } else {
        workloads_.erase(name);
      }
    }
    if (defect_ != Defect::kWorkloadsSilently) announce_workloads({name});
  }
  void read_workloads(const std::map<WorkloadName, Workload>& content) {
    std::vector<WorkloadName> gone;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [name, workload] : workloads_)
        if (!content.contains(name)) gone.push_back(name);
    }
    for (const WorkloadName& name : gone) change_workload(name, nullptr);
    for (const auto& [name, workload] : content) change_workload(name, &workload);
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
    if (away && defect_ == Defect::kBlocks) std::this_thread::sleep_for(blocked_);
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

  std::vector<Workload> list_workloads() const override {
    std::vector<Workload> out;
    for (const Workload& workload : known_workloads()) {
      out.push_back(workload);
      if (defect_ == Defect::kFindsOther) out.back().labels["only"] = "listed";
    }
    if (defect_ == Defect::kListsInReverse) std::reverse(out.begin(), out.end());
    if (defect_ == Defect::kListsHalfTheWorkloads && out.size() > 10) out.resize(out.size() / 2);
    return out;
  }
  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    for (const Workload& workload : known_workloads())
      if (workload.name == name) return workload;
    return std::nullopt;
  }
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>&)> on_change) override {
    if (defect_ != Defect::kEndsWorkloadsWithoutWaiting)
      return workloads_changed_.subscribe(std::move(on_change));
    std::lock_guard lock(careless_mutex_);
    careless_workloads_[++careless_id_] = std::move(on_change);
    return Subscription(std::shared_ptr<void>(this, [this, id = careless_id_](void*) {
      std::lock_guard ending(careless_mutex_);
      careless_workloads_.erase(id);
    }));
  }

 private:
  std::vector<Workload> known_workloads() const {
    const bool away = !healthy();
    if (away && defect_ == Defect::kThrowsForWorkloads)
      throw std::runtime_error("no answer about workloads");
    std::vector<Workload> out;
    if (away && defect_ == Defect::kForgetsWorkloads) return out;
    std::set<ProxyId> taken;
    std::lock_guard lock(mutex_);
    for (const auto& [name, workload] : workloads_)
      if (taken.insert(workload.proxy_id).second || defect_ != Defect::kDropsCopies)
        out.push_back(workload);
    return out;
  }
  void announce_workloads(const std::vector<WorkloadName>& changed) {
    workloads_changed_.notify(changed);
    std::map<int, std::function<void(const std::vector<WorkloadName>&)>> careless;
    {
      std::lock_guard lock(careless_mutex_);
      careless = careless_workloads_;
    }
    for (const auto& [id, callback] : careless) callback(changed);
  }

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
      std::latch both(2);
      std::thread other([&] {
        both.arrive_and_wait();
        changed_.notify(changed);
      });
      both.arrive_and_wait();
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
  const std::chrono::milliseconds blocked_;
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

  std::map<WorkloadName, Workload> workloads_;
  std::map<std::string, ServiceAccount> accounts_;

  Notifier<const std::vector<ServiceName>&> changed_;
  Notifier<const std::vector<WorkloadName>&> workloads_changed_;
  std::mutex careless_mutex_;
  std::map<int, std::function<void(const std::vector<WorkloadName>&)>> careless_workloads_;
  int careless_id_ = 0;
  std::map<int, std::function<void(const std::vector<ServiceName>&)>> careless_;
};

class BrokenPlatform final : public ProviderPlatform {
 public:
  // `blocked`: how long a provider that blocks does so.
  explicit BrokenPlatform(Defect defect, std::chrono::milliseconds blocked = {})
      : defect_(defect), blocked_(blocked) {}

  PlatformTraits traits() const override {
    PlatformTraits traits;
    traits.workloads = true;
    return traits;
  }

  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    auto provider = std::make_unique<BrokenProvider>(defect_, blocked_, runtime.clock);
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
  void set_workload(const Workload& workload) override {
    workloads_[workload.name] = workload;
    if (provider_ && reachable_) provider_->change_workload(workload.name, &workload);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
  }
  void remove_workload(const WorkloadName& name) override {
    workloads_.erase(name);
    if (provider_ && reachable_) provider_->change_workload(name, nullptr);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
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
    provider_->read_workloads(workloads_);
    provider_->set_synced();
  }

  const Defect defect_;
  const std::chrono::milliseconds blocked_;
  Content content_;
  PlatformWorkloads workloads_;
  bool reachable_ = true;
  int pumped_ = 0;
  BrokenProvider* provider_ = nullptr;
};

}  // namespace osm::inline v1::testing
