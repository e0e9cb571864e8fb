// The times at which proxies are recalled while a root drains. A proxy shows a newer certificate
// only when it connects again, and one that has none yet would show its old one.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "osm/clock.hpp"

namespace osm::inline v1::root_rotation {

class RecallGate {
 public:
  // Intervals to wait while certificates are left to write and none is written.
  static constexpr int kStuck = 4;

  explicit RecallGate(std::chrono::seconds interval) : interval_(interval) {}

  // `lag`: certificates that are left to write, of all replicas. Result: true once an interval,
  // first when `lag` has stood still at 0 for one since the root began to drain.
  bool due(bool draining, std::size_t lag, SteadyTime now) {
    if (!draining) {
      still_since_.reset();
      return false;
    }
    if (!still_since_ || lag != lag_) still_since_ = now;
    lag_ = lag;
    if (now - *still_since_ < (lag == 0 ? 1 : kStuck) * interval_) return false;
    if (recalled_at_ && now - *recalled_at_ < interval_) return false;
    recalled_at_ = now;
    return true;
  }

 private:
  std::chrono::seconds interval_;
  std::size_t lag_ = 0;
  std::optional<SteadyTime> still_since_;  // none: no root drains
  std::optional<SteadyTime> recalled_at_;
};

}  // namespace osm::inline v1::root_rotation
