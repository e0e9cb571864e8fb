// The workloads of the provider under test: what its clauses share.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/guarded.hpp"
#include "osm/values/proxy_id.hpp"
#include "osm/values/workload.hpp"
#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {

using Found = std::optional<Workload>;

inline Workload workload_at(std::size_t n, const std::string& account = "books") {
  Workload workload;
  workload.name = {kShop, "workload-" + std::to_string(n)};
  workload.proxy_id = derived_proxy_id(TrustDomain("cluster.local"), workload.name);
  workload.account = {kShop, account};
  workload.address = endpoint_at(n).address;
  workload.services = {kBooks};
  return workload;
}

inline std::string text_of(const Found& workload) {
  if (!workload) return "unknown";
  std::string services;
  for (const ServiceName& service : workload->services) services += ' ' + service.str();
  return workload->name.str() + " at " + workload->address + " as " + workload->account.str() +
         " with UUID " + workload->proxy_id.str() + ", serves:" + services;
}

// A platform may have labels and ports of its own. The clause "workloads-kind" checks the kind.
inline bool same(const Found& seen, const Found& expected) {
  if (!seen || !expected) return seen.has_value() == expected.has_value();
  return std::tie(seen->name, seen->proxy_id, seen->account, seen->address, seen->services) ==
         std::tie(expected->name, expected->proxy_id, expected->account, expected->address,
                  expected->services);
}

// The workloads of the provider under test: its answers, exceptions and announcements.
class Crew {
 public:
  explicit Crew(Bench& bench)
      : bench_(bench), provider_(dynamic_cast<WorkloadProvider*>(&bench.provider())) {
    if (provider_ == nullptr) return;
    auto subscribed = guarded([this] {
      return provider_->subscribe_workloads(
          [this](const std::vector<WorkloadName>& changed) { hear(changed); });
    });
    if (subscribed.ok()) subscription_ = *std::move(subscribed);
  }

  bool there() const { return provider_ != nullptr; }
  WorkloadProvider& provider() { return *provider_; }

  Found find(const WorkloadName& name) {
    return note("find_workload(" + name.str() + ')', [&] { return provider_->find_workload(name); })
        .value_or(std::nullopt);
  }
  std::vector<Workload> list() {
    return note("list_workloads()", [&] { return provider_->list_workloads(); }).value_or({});
  }
  std::vector<Problem> problems() {
    return note("list_problems()", [&] { return provider_->list_problems(); }).value_or({});
  }
  bool synced() {
    return note("workloads_synced()", [&] { return provider_->workloads_synced(); })
               .value_or(false) &&
           bench_.watch().synced();
  }
  // Waits until it is found, or is gone.
  bool finds(const WorkloadName& name, const Found& expected) {
    return bench_.wait([&] { return same(find(name), expected); });
  }
  bool put(const Workload& workload) {
    bench_.platform().set_workload(workload);
    return finds(workload.name, workload);
  }
  // Runs inside each announcement.
  void on_announcement(std::function<void(const std::vector<WorkloadName>&)> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  std::string thrown() const {
    const std::lock_guard lock(mutex_);
    return thrown_;
  }
  bool overlapped() const { return overlapped_; }

 private:
  template <class Call>
  auto note(const std::string& name, const Call& call) -> Result<decltype(call())> {
    auto answer = guarded(call);
    const std::lock_guard lock(mutex_);
    if (!answer.ok() && thrown_.empty())
      thrown_ = name + " threw '" + answer.error().message + '\'';
    return answer;
  }
  void hear(const std::vector<WorkloadName>& changed) {
    if (++running_ > 1) overlapped_ = true;
    std::function<void(const std::vector<WorkloadName>&)> hook;
    {
      const std::lock_guard lock(mutex_);
      hook = hook_;
    }
    if (hook) hook(changed);
    --running_;
  }

  Bench& bench_;
  WorkloadProvider* provider_;
  std::atomic<int> running_ = 0;
  std::atomic<bool> overlapped_ = false;
  mutable std::mutex mutex_;
  std::string thrown_;
  std::function<void(const std::vector<WorkloadName>&)> hook_;
  Subscription subscription_;  // last: it ends first
};

// Runs `check` on a started provider. `prepare` may fill the platform before.
template <class Check>
Verdict with_crew(Bench& bench, const Check& check,
                  const std::function<void(ProviderPlatform&)>& prepare = {}) {
  if (!bench.traits().workloads) return not_applicable("the platform runs no proxies");
  if (prepare) prepare(bench.platform());
  bench.start({kBooks});
  Crew crew(bench);
  if (!crew.there())
    return failed("a platform with workloads has a provider that is a WorkloadProvider too",
                  "the provider of start() is none");
  return check(crew);
}

inline bool wait_until_synced(Bench& bench, Crew& crew) {
  return bench.wait([&] { return crew.synced(); });
}

}  // namespace osm::inline v1::testing
