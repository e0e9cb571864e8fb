// Tells an executor with a task that hangs from one that has much to do.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Passes tasks on to another executor, and looks at those that pass. It hangs if one of them has
// run for kHangs without a tick(), or waits for a thread while none has begun for so long. A queue
// is no hang while tasks begin. A strand's tasks that follow each other count as one, so that a
// Pulse sees more of a strand.
class WatchedExecutor final : public Executor {
 public:
  // Longer than a task waits for one answer: a program that gives credentials has 60 s, a request
  // of cert-manager too.
  static constexpr std::chrono::seconds kHangs{120};

  // `name`: the work of the tasks, for the error. Lifetime: `executor` outlives it, and `clock` its
  // tasks.
  WatchedExecutor(std::string name, Executor& executor, const Clock& clock,
                  std::chrono::seconds hangs = kHangs)
      : name_(std::move(name)),
        executor_(executor),
        hangs_(hangs),
        state_(std::make_shared<State>(clock)) {}

  void post(std::function<void()> task) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->waiting++ == 0) state_->began = state_->clock.steady_now();
    }
    executor_.post([state = state_, task = std::move(task)]() mutable {
      const Running running(*state, 1);
      task();
      task = nullptr;  // its captures may take long, too
    });
  }
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    return executor_.post_after(delay, [state = state_, task = std::move(task)]() mutable {
      const Running running(*state, 0);
      task();
      task = nullptr;
    });
  }
  bool running_in_this_thread() const override { return executor_.running_in_this_thread(); }

  // Says that the task goes on which this thread runs, if a watched executor gave it to it. Thread:
  // any. Blocking: no.
  static void tick() {
    for (Running* running = Running::current; running != nullptr; running = running->outer)
      running->tick();
  }

  // Failure: kUnavailable: it hangs. Thread: any. Blocking: no.
  Status check() const {
    const std::lock_guard lock(state_->mutex);
    const SteadyTime now = state_->clock.steady_now();
    SteadyTime since = state_->waiting > 0 ? state_->began : now;
    for (const SteadyTime step : state_->running) since = std::min(since, step);
    if (now - since < hangs_) return {};
    return Error{ErrorCode::kUnavailable,
                 name_ + ": nothing has happened for " +
                     std::to_string(std::chrono::floor<std::chrono::seconds>(now - since).count()) +
                     " s"};
  }

 private:
  // Shared with the tasks, which may outlive the executor.
  struct State {
    explicit State(const Clock& c) : clock(c) {}

    const Clock& clock;
    std::mutex mutex;
    std::list<SteadyTime> running;  // the last step of each running task
    std::size_t waiting = 0;        // tasks that have not begun
    SteadyTime began{};             // a task began last, or began to wait while none did
  };

  // A task that runs on this thread.
  struct Running {
    Running(State& s, std::size_t waited) : state(s), outer(std::exchange(current, this)) {
      const std::lock_guard lock(state.mutex);
      state.waiting -= waited;
      state.began = state.clock.steady_now();
      step = state.running.insert(state.running.end(), state.began);
    }
    ~Running() {
      current = outer;
      const std::lock_guard lock(state.mutex);
      state.running.erase(step);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    void tick() const {
      const std::lock_guard lock(state.mutex);
      *step = state.clock.steady_now();
    }

    State& state;
    Running* const outer;  // of an executor that this one passes its tasks on to
    std::list<SteadyTime>::iterator step;
    static inline thread_local Running* current = nullptr;
  };

  const std::string name_;
  Executor& executor_;
  const std::chrono::seconds hangs_;
  const std::shared_ptr<State> state_;
};

}  // namespace osm::inline v1
