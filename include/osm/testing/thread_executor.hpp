// A small pool of real threads, for tests of concurrent behaviour.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"

namespace osm::inline v1::testing {

// Tasks start in the order they were posted or became due, on any free thread, by the real steady
// clock. The destructor waits for running tasks and drops the rest; it must not run inside a task.
class OSM_API ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int threads);
  ~ThreadExecutor() override;
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void post(std::function<void()> task) override;
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override;
  bool running_in_this_thread() const override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Calls `condition` until it is true. Result: false if that took longer than `deadline`.
OSM_API bool wait_until(const std::function<bool()>& condition,
                        std::chrono::nanoseconds deadline = std::chrono::seconds(10));

}  // namespace osm::inline v1::testing
