// How long to wait before the next attempt: twice as long each time, and never quite the same.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "osm/clock.hpp"

namespace osm::inline v1::kubernetes {

class Backoff {
 public:
  // Waits half to all of `first`, then of twice that, ..., then of `longest`. `rng` outlives it.
  Backoff(Rng& rng, std::chrono::milliseconds first, std::chrono::milliseconds longest)
      : rng_(rng), first_(first), longest_(longest), next_(first) {}

  std::chrono::milliseconds next() {
    const auto wait = std::exchange(next_, std::min(next_ * 2, longest_));
    const auto half = static_cast<std::uint64_t>(wait.count()) / 2;
    return std::chrono::milliseconds(wait.count() -
                                     static_cast<std::int64_t>(rng_.next() % (half + 1)));
  }
  // After success.
  void reset() { next_ = first_; }

 private:
  Rng& rng_;
  std::chrono::milliseconds first_;
  std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_;
};

}  // namespace osm::inline v1::kubernetes
