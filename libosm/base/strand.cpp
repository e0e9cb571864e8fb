#include "base/strand.hpp"

#include <utility>

#include "osm/detail/call_gate.hpp"

namespace osm::inline v1 {

namespace {

// Tasks after which it lets the executor's other work go first. On an executor of one thread a
// queue that never empties would keep timers from running.
constexpr int kTurn = 64;

}  // namespace

struct Strand::State {
  explicit State(Executor& e) : executor(e) {}

  Executor& executor;
  detail::CallGate gate;  // around each task
  std::mutex mutex;
  std::deque<std::function<void()>> queue;
  std::uint64_t steps = 0;
  bool scheduled = false;
  bool stopped = false;
};

Strand::Strand(Executor& executor)
    : executor_(executor), state_(std::make_shared<State>(executor)) {}

Strand::~Strand() { stop(); }

void Strand::push(Executor& executor, const std::shared_ptr<State>& state,
                  std::function<void()> task) {
  {
    std::lock_guard lock(state->mutex);
    if (state->stopped) return;
    state->queue.push_back(std::move(task));
    if (std::exchange(state->scheduled, true)) return;
    ++state->steps;
  }
  executor.post([state] { run(state); });
}

void Strand::post(std::function<void()> task) { push(executor_, state_, std::move(task)); }

Subscription Strand::post_after(std::chrono::nanoseconds delay, std::function<void()> task) {
  // The handle must also cancel between the timer firing and the task's turn on the strand.
  struct Pending {
    detail::CallGate gate;
    Subscription timer;
  };
  auto pending = std::make_shared<Pending>();
  auto fire = [pending, task = std::move(task)] { pending->gate.run(task); };
  Subscription timer = executor_.post_after(
      delay, [weak = std::weak_ptr(state_), executor = &executor_, fire = std::move(fire)] {
        if (const auto state = weak.lock()) push(*executor, state, fire);
      });
  pending->timer = std::move(timer);
  return Subscription(std::shared_ptr<void>(pending.get(), [pending](void*) mutable {
    pending->timer.reset();
    pending->gate.close();
  }));
}

bool Strand::running_in_this_thread() const {
  return state_->gate.inside() || executor_.running_in_this_thread();
}

void Strand::tick() {
  const std::lock_guard lock(state_->mutex);
  ++state_->steps;
}

Strand::Steps Strand::steps() const {
  const std::lock_guard lock(state_->mutex);
  return {state_->steps, !state_->scheduled || state_->stopped};
}

void Strand::stop() {
  // Destroyed after the lock: what tasks capture may post or cancel here when it dies.
  std::deque<std::function<void()>> dropped;
  {
    std::lock_guard lock(state_->mutex);
    state_->stopped = true;
    dropped.swap(state_->queue);
  }
  state_->gate.close();
}

void Strand::run(const std::shared_ptr<State>& state) {
  // Entered before a task is taken, so that stop() waits for the task and for its captures.
  for (int left = kTurn; state->gate.enter(); --left) {
    if (left == 0) {
      state->executor.post([state] { run(state); });
      state->gate.leave();
      return;
    }
    std::function<void()> task;
    {
      std::lock_guard lock(state->mutex);
      if (state->queue.empty()) {
        state->scheduled = false;
      } else {
        ++state->steps;
        task = std::move(state->queue.front());
        state->queue.pop_front();
      }
    }
    if (!task) {
      state->gate.leave();
      return;
    }
    task();
    task = nullptr;
    state->gate.leave();
  }
}

}  // namespace osm::inline v1
