#include "host/freshness.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/times.hpp"

namespace osm::inline v1::host {

void Freshness::confirmed(std::optional<SteadyTime> at) {
  const std::lock_guard lock(mutex_);
  confirmed_ = at;
}

void Freshness::listed(const std::map<std::string, std::string>& addresses) {
  const SteadyTime now = clock_.steady_now();
  const std::lock_guard lock(mutex_);
  for (const auto& [replica, address] : addresses) {
    if (address.empty()) continue;
    Known& known = peers_[replica];
    known.address = address;
    known.listed_at = now;
  }
  std::erase_if(peers_,
                [&](const auto& entry) { return now - entry.second.listed_at >= kPeerLife; });
}

bool Freshness::answered(const std::string& replica, const std::optional<Answer>& answer) {
  // Another replica may have got the address.
  const bool fresh = answer && answer->replica == replica && answer->generation > 0 &&
                     !answer->stale && answer->admits;
  const std::lock_guard lock(mutex_);
  const auto known = peers_.find(replica);
  if (known == peers_.end()) return false;
  known->second.fresh_at.reset();
  if (fresh) known->second.fresh_at = clock_.steady_now();
  return fresh;
}

std::chrono::nanoseconds Freshness::staleness() const {
  const std::lock_guard lock(mutex_);
  return confirmed_ ? clock_.steady_now() - *confirmed_ : std::chrono::nanoseconds(0);
}

bool Freshness::stale() const { return staleness() >= stale_after_; }

std::vector<Freshness::Peer> Freshness::peers() const {
  const std::lock_guard lock(mutex_);
  std::vector<Peer> peers;
  for (const bool fresh : {true, false})
    for (const auto& [replica, known] : peers_)
      if (known.fresh_at.has_value() == fresh) peers.push_back({replica, known.address});
  return peers;
}

Status Freshness::admits() const {
  const std::chrono::nanoseconds age = staleness();
  if (age < stale_after_) return {};
  const SteadyTime now = clock_.steady_now();
  const std::lock_guard lock(mutex_);
  const auto fresh = std::find_if(peers_.begin(), peers_.end(), [&](const auto& entry) {
    return entry.second.fresh_at && now - *entry.second.fresh_at < kAnswerLife;
  });
  if (fresh == peers_.end()) return {};
  return Error{
      ErrorCode::kUnavailable,
      fmt::format(
          "stale: this replica has not reached the store of the mesh since {}, and replica {} "
          "reaches it: proxies connect to that one",
          rfc3339(clock_.wall_now() - age), fresh->first)};
}

}  // namespace osm::inline v1::host
