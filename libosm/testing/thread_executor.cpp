#include "osm/testing/thread_executor.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "osm/detail/call_gate.hpp"

namespace osm::inline v1::testing {
namespace {

using Steady = std::chrono::steady_clock;

struct Task {
  std::function<void()> run;
  detail::CallGate gate;
};
using TaskPtr = std::shared_ptr<Task>;
// The executor whose thread this is.
thread_local const void* own_state = nullptr;

using Order = std::pair<Steady::time_point, std::uint64_t>;

}  // namespace

struct ThreadExecutor::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Order, TaskPtr> tasks;  // by start time, then by age
  std::uint64_t created = 0;
  bool stopped = false;
  std::vector<std::thread> threads;

  TaskPtr add(std::chrono::nanoseconds delay, std::function<void()> run) {
    auto task = std::make_shared<Task>();
    task->run = std::move(run);
    const auto due = delay.count() > 0
                         ? Steady::now() + std::chrono::duration_cast<Steady::duration>(delay)
                         : Steady::time_point::min();
    {
      std::lock_guard lock(mutex);
      if (stopped) return task;
      tasks.emplace(Order(due, created++), task);
    }
    changed.notify_all();
    return task;
  }

  void cancel(const TaskPtr& task) {
    {
      std::lock_guard lock(mutex);
      std::erase_if(tasks, [&](const auto& entry) { return entry.second == task; });
    }
    if (task->gate.close()) task->run = nullptr;
  }

  void work() {
    own_state = this;
    std::unique_lock lock(mutex);
    while (!stopped) {
      if (tasks.empty()) {
        changed.wait(lock);
        continue;
      }
      const auto first = tasks.begin();
      if (const auto due = first->first.first; due > Steady::now()) {
        changed.wait_until(lock, due);
        continue;
      }
      const TaskPtr task = std::move(first->second);
      tasks.erase(first);
      lock.unlock();
      task->gate.run([&] { std::exchange(task->run, nullptr)(); });
      lock.lock();
    }
  }
};

ThreadExecutor::ThreadExecutor(int threads) : state_(std::make_shared<State>()) {
  for (int i = 0; i < threads; ++i)
    state_->threads.emplace_back([state = state_] { state->work(); });
}

ThreadExecutor::~ThreadExecutor() {
  std::map<Order, TaskPtr> dropped;
  {
    std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    dropped.swap(state_->tasks);
  }
  state_->changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

void ThreadExecutor::post(std::function<void()> task) {
  state_->add(std::chrono::nanoseconds(0), std::move(task));
}

Subscription ThreadExecutor::post_after(std::chrono::nanoseconds delay,
                                        std::function<void()> task) {
  TaskPtr added = state_->add(delay, std::move(task));
  void* handle = added.get();
  return Subscription(
      std::shared_ptr<void>(handle, [state = state_, added](void*) { state->cancel(added); }));
}

bool ThreadExecutor::running_in_this_thread() const { return own_state == state_.get(); }

bool wait_until(const std::function<bool()>& condition, std::chrono::nanoseconds deadline) {
  const auto end = Steady::now() + std::chrono::duration_cast<Steady::duration>(deadline);
  while (!condition()) {
    if (Steady::now() >= end) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace osm::inline v1::testing
