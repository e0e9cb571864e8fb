#include "osm/testing/manual_executor.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "osm/detail/call_gate.hpp"

namespace osm::inline v1::testing {
namespace {

// One posted task. A timer's task can be cancelled until it starts; cancelling waits for a running
// one.
struct Task {
  explicit Task(std::function<void()> r) : run(std::move(r)) {}
  std::function<void()> run;
  detail::CallGate gate;
};
using TaskPtr = std::shared_ptr<Task>;

// The executor that runs a task on this thread.
thread_local const void* running_state = nullptr;

}  // namespace

struct ManualExecutor::State {
  mutable std::mutex mutex;
  std::deque<TaskPtr> queue;
  std::map<std::pair<SteadyTime, std::uint64_t>, TaskPtr> timers;  // by deadline, then creation
  std::uint64_t created = 0;

  // Precondition: mutex held.
  void queue_due(SteadyTime now) {
    while (!timers.empty() && timers.begin()->first.first <= now) {
      queue.push_back(std::move(timers.begin()->second));
      timers.erase(timers.begin());
    }
  }

  void cancel(const TaskPtr& task) {
    {
      std::lock_guard lock(mutex);
      std::erase(queue, task);
      std::erase_if(timers, [&](const auto& timer) { return timer.second == task; });
    }
    if (task->gate.close()) task->run = nullptr;
  }
};

ManualExecutor::ManualExecutor(ManualClock& clock)
    : clock_(clock), state_(std::make_shared<State>()) {}

ManualExecutor::~ManualExecutor() {
  // Dropped tasks may own handles of this executor, so they are destroyed without the lock.
  std::deque<TaskPtr> queue;
  std::map<std::pair<SteadyTime, std::uint64_t>, TaskPtr> timers;
  std::lock_guard lock(state_->mutex);
  queue.swap(state_->queue);
  timers.swap(state_->timers);
}

void ManualExecutor::post(std::function<void()> task) {
  std::lock_guard lock(state_->mutex);
  state_->queue_due(clock_.steady_now());
  state_->queue.push_back(std::make_shared<Task>(std::move(task)));
}

Subscription ManualExecutor::post_after(std::chrono::nanoseconds delay,
                                        std::function<void()> task) {
  auto timer = std::make_shared<Task>(std::move(task));
  std::lock_guard lock(state_->mutex);
  const SteadyTime deadline = clock_.steady_now() + std::max(delay, std::chrono::nanoseconds(0));
  state_->timers.emplace(std::pair(deadline, state_->created++), timer);
  return Subscription(
      std::shared_ptr<void>(timer.get(), [state = state_, timer](void*) { state->cancel(timer); }));
}

bool ManualExecutor::run_one() {
  TaskPtr task;
  {
    std::lock_guard lock(state_->mutex);
    state_->queue_due(clock_.steady_now());
    if (state_->queue.empty()) return false;
    task = std::move(state_->queue.front());
    state_->queue.pop_front();
  }
  const void* const outer = std::exchange(running_state, state_.get());
  task->gate.run([&] { std::exchange(task->run, nullptr)(); });
  running_state = outer;
  return true;
}

bool ManualExecutor::running_in_this_thread() const { return running_state == state_.get(); }

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
      if (!state_->timers.empty()) next = state_->timers.begin()->first.first;
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
  state_->queue_due(clock_.steady_now());
  return state_->queue.size();
}

std::size_t ManualExecutor::timers() const {
  std::lock_guard lock(state_->mutex);
  state_->queue_due(clock_.steady_now());
  return state_->timers.size();
}

}  // namespace osm::inline v1::testing
