// Runs the library's tasks. The library creates no threads for them: the host passes an Executor in
// (osm/runtime/asio_executor.hpp adapts Boost.Asio; osm::testing has a manual one).
#pragma once

#include <chrono>
#include <functional>

#include "osm/detail/api.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API Executor {
 public:
  virtual ~Executor() = default;

  // Runs `task` once, soon, on some thread of the executor, never inside this call.
  // Thread: any. Blocking: no. Failure: none; a stopped executor drops the task.
  // Lifetime: what the task captures must live until it ran or the executor is destroyed.
  virtual void post(std::function<void()> task) = 0;

  // Runs `task` once after `delay` unless the returned handle is destroyed first.
  // Thread: any. Blocking: the handle's destructor waits for a running task, but not for its own.
  virtual Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) = 0;

  // True if the calling thread runs a task of this executor. With it the library refuses calls that
  // would wait for the executor on its own thread; false if the executor cannot tell.
  // Thread: any. Blocking: no.
  virtual bool running_in_this_thread() const { return false; }
};

}  // namespace osm::inline v1
