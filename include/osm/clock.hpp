// Time and randomness, injected so that tests never sleep and are repeatable.
#pragma once

#include <chrono>
#include <cstdint>

namespace osm {

using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;
using SteadyTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Calendar time: for certificates. May jump. Thread: any. Blocking: no.
  virtual WallTime wall_now() const = 0;
  // Monotonic time: for intervals. Thread: any. Blocking: no.
  virtual SteadyTime steady_now() const = 0;
};

// Not for keys: those come from OpenSSL's generator.
class Rng {
 public:
  virtual ~Rng() = default;
  // Uniform over all 64-bit values. Thread: any. Blocking: no.
  virtual std::uint64_t next() = 0;
};

}  // namespace osm
