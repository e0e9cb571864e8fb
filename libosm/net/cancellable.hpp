// What makes the destructor of a handle safe: it waits for the callback, unless it runs inside it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace osm::inline v1::net {

// The state shared by a handle and its callback. `mutex` may guard more beside it.
struct Cancellable {
  std::mutex mutex;
  std::condition_variable idle;
  bool cancelled = false;
  bool running = false;
  std::thread::id runner;

  // Around each run of the callback. Result: whether it may run.
  bool begin() {
    std::lock_guard lock(mutex);
    if (cancelled) return false;
    running = true;
    runner = std::this_thread::get_id();
    return true;
  }

  // Result: whether it may run again.
  bool end() {
    std::lock_guard lock(mutex);
    running = false;
    idle.notify_all();
    return !cancelled;
  }

  // Precondition: lock held, cancelled set. Result: whether nothing runs any more.
  bool wait(std::unique_lock<std::mutex>& lock) {
    if (running && runner == std::this_thread::get_id()) return false;
    idle.wait(lock, [&] { return !running; });
    return true;
  }
};

}  // namespace osm::inline v1::net
