// An executor that runs its work when a test calls it, on the test's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/testing/manual_clock.hpp"

namespace osm::inline v1::testing {

// Deterministic: tasks run in the order they were posted. Due timers join the queue in the order of
// their deadlines, then of their creation. The destructor drops the remaining tasks.
// Thread: any for posting and cancelling; one at a time for running.
class OSM_API ManualExecutor final : public Executor {
 public:
  // `clock` outlives the executor.
  explicit ManualExecutor(ManualClock& clock);
  ~ManualExecutor() override;
  ManualExecutor(const ManualExecutor&) = delete;
  ManualExecutor& operator=(const ManualExecutor&) = delete;

  void post(std::function<void()> task) override;
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override;
  bool running_in_this_thread() const override;

  // Runs queued tasks and due timers, and the tasks that they post, until none is left. The clock
  // stays.
  // Result: the number of tasks run. Thread: not from inside a task.
  std::size_t run_until_idle();
  // Runs at most one task. Result: true if it ran one.
  bool run_one();
  // Lets `duration` pass: moves the clock from deadline to deadline, runs each timer at its own
  // time, and ends at now + duration with nothing due. Result: as run_until_idle().
  std::size_t run_for(std::chrono::nanoseconds duration);

  std::size_t queued() const;  // tasks that would run now, due timers included
  std::size_t timers() const;  // timers set and not due

 private:
  struct State;
  ManualClock& clock_;
  std::shared_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
