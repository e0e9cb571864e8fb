// Random spread, so that what began together does not come back together.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace osm::inline v1::certificate {

// [0, 1) from 64 random bits.
inline double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

inline std::chrono::nanoseconds part_of(std::chrono::nanoseconds whole, double part) {
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<double>(whole.count()) * part));
}

// Before the next attempt after `failures` in a row (1 or more): 1 s, 2 s, 4 s ... 5 min, of which
// the part [0, 1/2) that `unit` in [0, 1) says is taken off.
inline std::chrono::nanoseconds backoff(unsigned failures, double unit) {
  constexpr std::chrono::seconds kMost = std::chrono::minutes(5);
  const std::chrono::seconds whole(1LL << std::min(failures - 1, 10U));
  return part_of(std::min(kMost, whole), 1.0 - unit / 2);
}

}  // namespace osm::inline v1::certificate
