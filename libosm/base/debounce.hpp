// Coalesces bursts: the first trigger fires at once, later ones after `quiet` without a trigger,
// and no later than `max` after the first of them. Thread: one strand; call and destroy it there.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "osm/clock.hpp"
#include "osm/executor.hpp"

namespace osm::inline v1 {

struct DebounceOptions {
  std::chrono::nanoseconds quiet = std::chrono::milliseconds(20);
  std::chrono::nanoseconds max = std::chrono::milliseconds(100);
};

class Debounce {
 public:
  Debounce(Executor& strand, const Clock& clock, DebounceOptions options,
           std::function<void()> fire);

  void trigger();

 private:
  void arm(std::chrono::nanoseconds delay);
  void on_timer();

  Executor& strand_;
  const Clock& clock_;
  DebounceOptions options_;
  std::function<void()> fire_;
  std::optional<SteadyTime> last_fired_;
  std::optional<SteadyTime> first_pending_;
  SteadyTime last_trigger_{};
  Subscription timer_;
};

}  // namespace osm::inline v1
