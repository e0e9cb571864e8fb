// A clock that stands still until a test moves it.
#pragma once

#include <chrono>
#include <mutex>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::testing {

// Starts at 2024-01-01T00:00:00Z and at an arbitrary steady time. For all calls: Thread: any.
// Blocking: no. Moving the clock runs nothing: timers of a ManualExecutor fire when a test runs the
// executor.
class OSM_API ManualClock final : public Clock {
 public:
  ManualClock() = default;
  explicit ManualClock(WallTime wall) : wall_(wall) {}

  WallTime wall_now() const override;
  SteadyTime steady_now() const override;

  // Moves both times by `step` (not negative), as real time does.
  void advance(std::chrono::nanoseconds step);
  // Moves only the monotonic time (not negative), as if the calendar was set back meanwhile.
  void advance_steady(std::chrono::nanoseconds step);
  // Sets the calendar time, forwards or backwards, as an administrator or NTP does.
  void set_wall(WallTime wall);

 private:
  mutable std::mutex mutex_;
  WallTime wall_{std::chrono::seconds(1704067200)};
  SteadyTime steady_{std::chrono::hours(1)};
};

}  // namespace osm::inline v1::testing
