// Rate limit: a token bucket.
#pragma once

#include <algorithm>
#include <chrono>

#include "osm/clock.hpp"

namespace osm::inline v1 {

class RateLimit {
 public:
  // `burst` at once, then one every `period`.
  RateLimit(const Clock& clock, double burst, std::chrono::nanoseconds period)
      : clock_(clock), burst_(burst), period_(period), left_(burst), at_(clock.steady_now()) {}

  // Takes a token. Result: false if there is none.
  bool take() {
    refill();
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  // Time until take() succeeds; zero: now.
  std::chrono::nanoseconds wait() {
    refill();
    return left_ >= 1 ? std::chrono::nanoseconds(0)
                      : std::chrono::duration_cast<std::chrono::nanoseconds>(period_ * (1 - left_));
  }

 private:
  void refill() {
    const SteadyTime now = clock_.steady_now();
    left_ = std::min(burst_, left_ + std::chrono::duration<double>(now - at_) /
                                         std::chrono::duration<double>(period_));
    at_ = now;
  }

  const Clock& clock_;
  const double burst_;
  const std::chrono::nanoseconds period_;
  double left_;
  SteadyTime at_;
};

}  // namespace osm::inline v1
