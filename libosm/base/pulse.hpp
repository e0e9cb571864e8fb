// Tells a strand that hangs from one that has much to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/strand.hpp"
#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// A strand hangs if one task has run, or has waited for a thread of the executor, for kHangs. Tasks
// that queue are no hang while each ends in time, and a long task is none while it calls
// Strand::tick().
class Pulse {
 public:
  static constexpr std::chrono::seconds kHangs{30};

  // `name`: the work of the strand, for the error. Lifetime: both outlive the pulse.
  Pulse(std::string name, const Strand& strand, const Clock& clock)
      : name_(std::move(name)), strand_(strand), clock_(clock) {}

  // The time is counted from the first call that sees the task, so this must be called regularly.
  // Failure: kUnavailable: it hangs. Thread: any. Blocking: no.
  Status check() {
    const SteadyTime now = clock_.steady_now();
    const std::lock_guard lock(mutex_);
    const Strand::Steps steps = strand_.steps();
    if (steps.idle || steps.number != seen_) since_ = now;
    seen_ = steps.number;
    if (now - since_ < kHangs) return {};
    return Error{
        ErrorCode::kUnavailable,
        name_ + ": nothing has happened for " +
            std::to_string(std::chrono::floor<std::chrono::seconds>(now - since_).count()) + " s"};
  }

 private:
  const std::string name_;
  const Strand& strand_;
  const Clock& clock_;
  std::mutex mutex_;
  std::uint64_t seen_ = 0;  // guarded by mutex_, as the next one
  SteadyTime since_{};
};

}  // namespace osm::inline v1
