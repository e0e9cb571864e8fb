// Rate limit of writes: a token bucket.
#pragma once

#include <algorithm>
#include <chrono>

#include "osm/clock.hpp"

namespace osm::inline v1::kubernetes {

class RateLimit {
 public:
  // `burst` at once, then one every `period`.
  RateLimit(const Clock& clock, double burst, std::chrono::nanoseconds period)
      : clock_(clock), burst_(burst), period_(period), left_(burst), at_(clock.steady_now()) {}

  // Takes a token. Result: false if there is none.
  bool take() {
    const SteadyTime now = clock_.steady_now();
    const std::chrono::duration<double> passed = now - at_;
    left_ = std::min(burst_, left_ + passed / std::chrono::duration<double>(period_));
    at_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  const Clock& clock_;
  const double burst_;
  const std::chrono::nanoseconds period_;
  double left_;
  SteadyTime at_;
};

}  // namespace osm::inline v1::kubernetes
