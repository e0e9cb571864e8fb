#include "osm/testing/manual_clock.hpp"

#include "base/check.hpp"

namespace osm::inline v1::testing {

WallTime ManualClock::wall_now() const {
  std::lock_guard lock(mutex_);
  return wall_;
}

SteadyTime ManualClock::steady_now() const {
  std::lock_guard lock(mutex_);
  return steady_;
}

void ManualClock::advance(std::chrono::nanoseconds step) {
  OSM_CHECK(step.count() >= 0);
  std::lock_guard lock(mutex_);
  wall_ += step;
  steady_ += step;
}

void ManualClock::advance_steady(std::chrono::nanoseconds step) {
  OSM_CHECK(step.count() >= 0);
  std::lock_guard lock(mutex_);
  steady_ += step;
}

void ManualClock::set_wall(WallTime wall) {
  std::lock_guard lock(mutex_);
  wall_ = wall;
}

}  // namespace osm::inline v1::testing
