// Ends a handle's callback: the handle closes the gate that every call passes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"

namespace osm::inline v1::detail {

// Shared by a handle and those that call. Thread: any.
class OSM_API CallGate {
 public:
  CallGate() = default;
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  // Begins a call, which leave() ends on the same thread. Result: false once the gate is closed.
  bool enter();
  // Result: false if the gate was closed meanwhile.
  bool leave();
  // `call` between enter() and leave(). Result: false if the gate is closed.
  template <class F>
  bool run(F&& call) {
    if (!enter()) return false;
    std::forward<F>(call)();
    return leave();
  }

  // True between enter() and leave() of the calling thread.
  bool inside() const;

  // Refuses further calls and waits for those that run; inside a call it does not wait.
  // Result: true if no call runs any more.
  bool close();

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  bool closed_ = false;
  std::vector<std::thread::id> runners_;
};

}  // namespace osm::inline v1::detail
