// Lets tasks on a foreign executor borrow their owner: after close() none is inside and none
// enters.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace osm::inline v1::ads {

class TaskGate {
 public:
  ~TaskGate() { close(); }

  // `task`, wrapped so that it does nothing once the gate is closed.
  std::function<void()> guard(std::function<void()> task) const {
    return [state = state_, task = std::move(task)] {
      {
        std::lock_guard lock(state->mutex);
        if (state->closed) return;
        ++state->inside;
      }
      task();
      std::lock_guard lock(state->mutex);
      --state->inside;
      state->left.notify_all();
    };
  }

  // Waits for the tasks inside. Not to be called by one of them.
  void close() {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->left.wait(lock, [this] { return state_->inside == 0; });
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable left;
    int inside = 0;
    bool closed = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace osm::inline v1::ads
