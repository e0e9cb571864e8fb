#include "base/strand.hpp"

#include <condition_variable>
#include <thread>
#include <utility>

namespace osm::inline v1 {

struct Strand::State {
  std::mutex mutex;
  std::condition_variable idle;
  std::deque<std::function<void()>> queue;
  bool scheduled = false;
  bool stopped = false;
  bool running = false;
  std::thread::id runner;
};

Strand::Strand(Executor& executor) : executor_(executor), state_(std::make_shared<State>()) {}

Strand::~Strand() { stop(); }

void Strand::post(std::function<void()> task) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->stopped) return;
    state_->queue.push_back(std::move(task));
    if (state_->scheduled) return;
    state_->scheduled = true;
  }
  executor_.post([state = state_] { run(state); });
}

Subscription Strand::post_after(std::chrono::nanoseconds delay, std::function<void()> task) {
  // Cancelling must also hold between the timer firing and the task's turn on the strand. The flag
  // is read on the strand, so a task that is running when the handle dies elsewhere is waited for.
  struct Pending {
    std::mutex mutex;
    std::condition_variable done;
    bool cancelled = false;
    bool running = false;
    std::thread::id runner;
    Subscription timer;
  };
  auto pending = std::make_shared<Pending>();
  auto fire = [pending, task = std::move(task)] {
    {
      std::lock_guard lock(pending->mutex);
      if (pending->cancelled) return;
      pending->running = true;
      pending->runner = std::this_thread::get_id();
    }
    task();
    std::lock_guard lock(pending->mutex);
    pending->running = false;
    pending->done.notify_all();
  };
  Subscription timer = executor_.post_after(
      delay, [weak = std::weak_ptr(state_), executor = &executor_, fire = std::move(fire)] {
        auto state = weak.lock();
        if (!state) return;
        bool schedule = false;
        {
          std::lock_guard lock(state->mutex);
          if (state->stopped) return;
          state->queue.push_back(fire);
          schedule = !std::exchange(state->scheduled, true);
        }
        if (schedule) executor->post([state] { run(state); });
      });
  pending->timer = std::move(timer);
  return Subscription(std::shared_ptr<void>(pending.get(), [pending](void*) mutable {
    pending->timer.reset();
    std::unique_lock lock(pending->mutex);
    pending->cancelled = true;
    if (pending->running && pending->runner == std::this_thread::get_id()) return;
    pending->done.wait(lock, [&] { return !pending->running; });
  }));
}

void Strand::stop() {
  // Destroyed after the lock: what tasks capture may post or cancel here when it dies.
  std::deque<std::function<void()>> dropped;
  std::unique_lock lock(state_->mutex);
  state_->stopped = true;
  dropped.swap(state_->queue);
  if (state_->running && state_->runner == std::this_thread::get_id()) return;
  state_->idle.wait(lock, [&] { return !state_->running; });
}

void Strand::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  state->runner = std::this_thread::get_id();
  while (!state->stopped && !state->queue.empty()) {
    std::function<void()> task = std::move(state->queue.front());
    state->queue.pop_front();
    state->running = true;
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    state->running = false;
  }
  state->scheduled = false;
  state->idle.notify_all();
}

}  // namespace osm::inline v1
