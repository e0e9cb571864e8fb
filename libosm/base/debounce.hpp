// Coalesces bursts: the first trigger fires at once, later ones after `quiet` without a trigger,
// and no later than `max` after the first of them. Thread: one strand; call and destroy it there.
#pragma once

#include <algorithm>
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
           std::function<void()> fire)
      : strand_(strand), clock_(clock), options_(options), fire_(std::move(fire)) {}

  void trigger() {
    const SteadyTime now = clock_.steady_now();
    last_trigger_ = now;
    if (first_pending_) return;  // the timer is armed
    if (!last_fired_ || now - *last_fired_ >= options_.quiet) {
      last_fired_ = now;
      fire_();
      return;
    }
    first_pending_ = now;
    arm(std::min(options_.quiet, options_.max));
  }

 private:
  void arm(std::chrono::nanoseconds delay) {
    timer_ = strand_.post_after(delay, [this] { on_timer(); });
  }

  void on_timer() {
    if (!first_pending_) return;
    const SteadyTime now = clock_.steady_now();
    const SteadyTime due = std::min(last_trigger_ + options_.quiet, *first_pending_ + options_.max);
    if (now < due) {
      arm(due - now);
      return;
    }
    first_pending_.reset();
    last_fired_ = now;
    fire_();
  }

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
