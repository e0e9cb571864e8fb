#include "osm/testing/manual_executor.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "testing/task_queue.hpp"

namespace osm::inline v1::testing {

struct ManualExecutor::State : TaskQueue {
  // Precondition: mutex held.
  std::size_t count_due(SteadyTime now) const {
    return static_cast<std::size_t>(std::count_if(
        tasks.begin(), tasks.end(), [now](const auto& entry) { return entry.first.first <= now; }));
  }
};

ManualExecutor::ManualExecutor(ManualClock& clock)
    : clock_(clock), state_(std::make_shared<State>()) {}

ManualExecutor::~ManualExecutor() { state_->clear(); }

void ManualExecutor::post(std::function<void()> task) {
  std::lock_guard lock(state_->mutex);
  state_->add(clock_.steady_now(), std::move(task));
}

Subscription ManualExecutor::post_after(std::chrono::nanoseconds delay,
                                        std::function<void()> task) {
  const SteadyTime due = clock_.steady_now() + std::max(delay, std::chrono::nanoseconds(0));
  std::lock_guard lock(state_->mutex);
  return handle_of(state_, state_->add(due, std::move(task)));
}

bool ManualExecutor::run_one() {
  TaskPtr task;
  {
    std::lock_guard lock(state_->mutex);
    task = state_->take(clock_.steady_now());
  }
  if (!task) return false;
  const TaskQueue* const outer = std::exchange(TaskQueue::current, state_.get());
  task->start();
  TaskQueue::current = outer;
  return true;
}

bool ManualExecutor::running_in_this_thread() const { return TaskQueue::current == state_.get(); }

std::size_t ManualExecutor::run_until_idle() {
  std::size_t ran = 0;
  while (run_one()) {
    // A test that never becomes idle would hang silently.
    OSM_CHECK(++ran < 10'000'000);
  }
  return ran;
}

std::size_t ManualExecutor::run_for(std::chrono::nanoseconds duration) {
  const SteadyTime end = clock_.steady_now() + duration;
  std::size_t ran = run_until_idle();
  for (;;) {
    std::optional<SteadyTime> next;
    {
      std::lock_guard lock(state_->mutex);
      if (!state_->tasks.empty()) next = state_->tasks.begin()->first.first;
    }
    const SteadyTime now = clock_.steady_now();
    if (!next || *next > end) {
      if (now < end) clock_.advance(end - now);
      return ran;
    }
    if (*next > now) clock_.advance(*next - now);
    ran += run_until_idle();
  }
}

std::size_t ManualExecutor::queued() const {
  std::lock_guard lock(state_->mutex);
  return state_->count_due(clock_.steady_now());
}

std::size_t ManualExecutor::timers() const {
  std::lock_guard lock(state_->mutex);
  return state_->tasks.size() - state_->count_due(clock_.steady_now());
}

}  // namespace osm::inline v1::testing
