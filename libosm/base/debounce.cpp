#include "base/debounce.hpp"

#include <algorithm>

namespace osm::inline v1 {

Debounce::Debounce(Executor& strand, const Clock& clock, DebounceOptions options,
                   std::function<void()> fire)
    : strand_(strand), clock_(clock), options_(options), fire_(std::move(fire)) {}

void Debounce::trigger() {
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

void Debounce::arm(std::chrono::nanoseconds delay) {
  timer_ = strand_.post_after(delay, [this] { on_timer(); });
}

void Debounce::on_timer() {
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

}  // namespace osm::inline v1
