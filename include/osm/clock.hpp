// Time and randomness. The host injects both, so that tests never sleep and are repeatable.
#pragma once

#include <chrono>
#include <cstdint>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

// The current time: calendar and monotonic.
class OSM_API Clock {
 public:
  virtual ~Clock() = default;
  // Calendar time, for certificates. It may jump. Thread: any. Blocking: no.
  virtual WallTime wall_now() const = 0;
  // Monotonic time, for intervals. Thread: any. Blocking: no.
  virtual SteadyTime steady_now() const = 0;
};

// Randomness for jitter and for ids that need not be secret. Keys come from OpenSSL's generator.
class OSM_API Rng {
 public:
  virtual ~Rng() = default;
  // Uniformly distributed over all 64-bit values. Thread: any. Blocking: no.
  virtual std::uint64_t next() = 0;
};

}  // namespace osm::inline v1
