// Things that clients are told when proxies are ready for them, or after a bound.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/maps.hpp"
#include "model/proxy_readiness.hpp"
#include "osm/clock.hpp"

namespace osm::inline v1::catalog {

struct Wait {
  SteadyTime until;
  std::set<std::uint64_t> generations{};  // with which it came, or changed
  bool fresh = true;                      // this build found it, or found it changed
};

// Waiting things by their owner: the Service of endpoints, the client of permissions. Not
// synchronized.
template <class Owner, class Key>
class Waits {
 public:
  using Some = std::map<Key, Wait>;

  Waits(const Clock& clock, std::chrono::nanoseconds bound) : clock_(clock), bound_(bound) {}

  // Takes out what waited for `owner`.
  Some take(const Owner& owner) {
    const auto at = waiting_.find(owner);
    return at == waiting_.end() ? Some() : std::move(waiting_.extract(at).mapped());
  }
  // Result: true if `key` waits; then `waits` has it. `before`: what take() gave. `changed`: it
  // waits with this build's generation too, if it waited before.
  bool hides(const Key& key, model::Readiness readiness, const Some& before, Some& waits,
             bool changed) {
    if (waits.contains(key)) return true;
    const SteadyTime now = clock_.steady_now();
    const Wait* waited = find_in(before, key);
    if (!waited) {
      if (readiness != model::Readiness::kNotReady) return false;
      waits.emplace(key, Wait{now + bound_});
      return true;
    }
    // A proxy that is gone meanwhile may be back in time.
    if (readiness != model::Readiness::kReady && now < waited->until) {
      waits.emplace(key, *waited).first->second.fresh = changed;
      return true;
    }
    told_late_ += readiness != model::Readiness::kReady;
    told_.insert(waited->generations.begin(), waited->generations.end());
    return false;
  }
  void put(const Owner& owner, Some waits) {
    if (!waits.empty()) waiting_.insert_or_assign(owner, std::move(waits));
  }

  // The build is done. Adds to `told` the generations of what this build told.
  void end(std::uint64_t generation, bool fresh, std::set<std::uint64_t>& told) {
    for (auto& [owner, waits] : waiting_)
      for (auto& [key, wait] : waits)
        if (std::exchange(wait.fresh, false) && fresh) wait.generations.insert(generation);
    told.merge(std::exchange(told_, {}));
  }

  // Owners of something that a build would tell, where `readiness_of` takes an owner and a key.
  template <class ReadinessOf>
  std::set<Owner> due(ReadinessOf readiness_of) const {
    const SteadyTime now = clock_.steady_now();
    std::set<Owner> owners;
    for (const auto& [owner, waits] : waiting_)
      for (const auto& [key, wait] : waits) {
        if (now < wait.until && readiness_of(owner, key) != model::Readiness::kReady) continue;
        owners.insert(owner);
        break;
      }
    return owners;
  }
  std::optional<SteadyTime> deadline() const {
    std::optional<SteadyTime> first;
    for (const auto& [owner, waits] : waiting_)
      for (const auto& [key, wait] : waits)
        if (!first || wait.until < *first) first = wait.until;
    return first;
  }

  const std::map<Owner, Some>& waiting() const { return waiting_; }
  // Number of those that were told for want of time, since the beginning.
  std::uint64_t told_late() const { return told_late_; }

 private:
  const Clock& clock_;
  const std::chrono::nanoseconds bound_;
  std::map<Owner, Some> waiting_;  // no empty values
  std::set<std::uint64_t> told_;   // Wait::generations of what this build told
  std::uint64_t told_late_ = 0;
};

}  // namespace osm::inline v1::catalog
