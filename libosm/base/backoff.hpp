// Random delays, so that callers that failed or started together do not come back together.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "osm/clock.hpp"

namespace osm::inline v1 {

// A duration between 0 and `most`, at random.
inline std::chrono::nanoseconds random_part(std::chrono::nanoseconds most, Rng& rng) {
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(rng.next() % (static_cast<std::uint64_t>(most.count()) + 1)));
}

// `delay`, or up to a quarter more.
inline std::chrono::nanoseconds jittered(std::chrono::nanoseconds delay, Rng& rng) {
  return delay + random_part(delay / 4, rng);
}

// Limits of the delays between attempts of a failing operation. The caller counts consecutive
// failures.
struct Backoff {
  std::chrono::nanoseconds first;
  std::chrono::nanoseconds longest;

  // After one failure half to all of `first`, after two of twice `first`, and so on, up to
  // `longest`. Precondition: failures > 0.
  std::chrono::nanoseconds delay(unsigned failures, Rng& rng) const {
    std::chrono::nanoseconds full = first;
    while (--failures > 0 && full < longest) full *= 2;
    full = std::min(full, longest);
    return full - random_part(full / 2, rng);
  }
};

}  // namespace osm::inline v1
