// Makes a handle's destructor safe: it waits for the callback, unless it runs inside the callback.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace osm::inline v1::net {

// State that a handle shares with its callback. `mutex` may also guard other data.
struct Cancellable {
  std::mutex mutex;
  std::condition_variable idle;
  bool cancelled = false;
  bool running = false;
  std::thread::id runner;

  // Called before each run of the callback. Result: true if it may run.
  bool begin() {
    std::lock_guard lock(mutex);
    if (cancelled) return false;
    running = true;
    runner = std::this_thread::get_id();
    return true;
  }

  // Called after each run. Result: true if it may run again.
  bool end() {
    std::lock_guard lock(mutex);
    running = false;
    idle.notify_all();
    return !cancelled;
  }

  // Waits for a running callback. Precondition: lock held, cancelled set. Result: true if nothing
  // runs any more.
  bool wait(std::unique_lock<std::mutex>& lock) {
    if (running && runner == std::this_thread::get_id()) return false;
    idle.wait(lock, [&] { return !running; });
    return true;
  }
};

}  // namespace osm::inline v1::net
