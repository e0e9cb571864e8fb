// Tasks and timers of an executor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "osm/clock.hpp"
#include "osm/detail/call_gate.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::testing {

// A task can be cancelled until it starts; cancelling waits for a running one.
struct Task {
  std::function<void()> run;
  detail::CallGate gate;

  void start() {
    gate.run([this] { std::exchange(run, nullptr)(); });
  }
};
using TaskPtr = std::shared_ptr<Task>;

class TaskQueue {
 public:
  // The queue whose task runs on this thread, or whose thread this is.
  static inline thread_local const TaskQueue* current = nullptr;

  mutable std::mutex mutex;
  std::map<std::pair<SteadyTime, std::uint64_t>, TaskPtr> tasks;  // by time due, then by creation

  // Precondition of both: mutex held.
  TaskPtr add(SteadyTime due, std::function<void()> run) {
    auto task = std::make_shared<Task>();
    task->run = std::move(run);
    tasks.emplace(std::pair(due, created_++), task);
    return task;
  }
  // The first task that is due; null: there is none.
  TaskPtr take(SteadyTime now) {
    if (tasks.empty() || tasks.begin()->first.first > now) return nullptr;
    return std::move(tasks.extract(tasks.begin()).mapped());
  }

  void cancel(const TaskPtr& task) {
    {
      std::lock_guard lock(mutex);
      std::erase_if(tasks, [&](const auto& entry) { return entry.second == task; });
    }
    if (task->gate.close()) task->run = nullptr;
  }

  // Drops all tasks. They may own handles of this queue, so they are destroyed without the lock.
  void clear() {
    decltype(tasks) dropped;
    std::lock_guard lock(mutex);
    dropped.swap(tasks);
  }

 private:
  std::uint64_t created_ = 0;
};

// A handle that cancels the task.
inline Subscription handle_of(std::shared_ptr<TaskQueue> queue, TaskPtr task) {
  void* address = task.get();
  return Subscription(std::shared_ptr<void>(
      address, [queue = std::move(queue), task = std::move(task)](void*) { queue->cancel(task); }));
}

}  // namespace osm::inline v1::testing
