#include "osm/testing/thread_executor.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "testing/task_queue.hpp"

namespace osm::inline v1::testing {

using Steady = std::chrono::steady_clock;

struct ThreadExecutor::State : TaskQueue {
  std::condition_variable changed;
  bool stopped = false;
  std::vector<std::thread> threads;

  TaskPtr start(std::chrono::nanoseconds delay, std::function<void()> run) {
    TaskPtr task = std::make_shared<Task>();
    {
      std::lock_guard lock(mutex);
      if (stopped) return task;
      task = add(Steady::now() + std::max(delay, std::chrono::nanoseconds(0)), std::move(run));
    }
    changed.notify_all();
    return task;
  }

  void work() {
    current = this;
    std::unique_lock lock(mutex);
    while (!stopped) {
      if (const TaskPtr task = take(Steady::now())) {
        lock.unlock();
        task->start();
        lock.lock();
      } else if (tasks.empty()) {
        changed.wait(lock);
      } else {
        const SteadyTime due = tasks.begin()->first.first;  // a copy: the task may go meanwhile
        changed.wait_until(lock, due);
      }
    }
  }
};

ThreadExecutor::ThreadExecutor(int threads) : state_(std::make_shared<State>()) {
  for (int i = 0; i < threads; ++i)
    state_->threads.emplace_back([state = state_] { state->work(); });
}

ThreadExecutor::~ThreadExecutor() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
  state_->clear();
}

void ThreadExecutor::post(std::function<void()> task) { state_->start({}, std::move(task)); }

Subscription ThreadExecutor::post_after(std::chrono::nanoseconds delay,
                                        std::function<void()> task) {
  return handle_of(state_, state_->start(delay, std::move(task)));
}

bool ThreadExecutor::running_in_this_thread() const { return TaskQueue::current == state_.get(); }

bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds deadline) {
  const auto end = Steady::now() + std::chrono::duration_cast<Steady::duration>(deadline);
  while (!condition()) {
    if (Steady::now() >= end) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace osm::inline v1::testing
