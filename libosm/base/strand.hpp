// Serializes tasks over an Executor: they run one at a time, in order, on its threads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"

namespace osm::inline v1 {

// Exported, since plugins stand on it as well.
//
// Destroying it drops what has not started; a task that is running may outlive it, so tasks that
// borrow their owner check the owner's own lifetime (see MeshLoop for the pattern).
class OSM_API Strand final : public Executor {
 public:
  explicit Strand(Executor& executor);
  ~Strand() override;

  void post(std::function<void()> task) override;
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override;
  // True also if only the strand can tell, since a task of it runs.
  bool running_in_this_thread() const override;

  // Says that the running task goes on: a long one calls it now and then. Thread: any.
  void tick();

  // The strand's progress, for Pulse.
  struct Steps {
    std::uint64_t number = 0;  // of the tasks begun, of the ticks and of the ends of idleness
    bool idle = true;          // there is no task, or it has stopped
  };
  Steps steps() const;

  // Drops queued tasks and waits for the running one (unless called by it). Later posts are
  // dropped.
  void stop();

 private:
  struct State;
  static void push(Executor& executor, const std::shared_ptr<State>& state,
                   std::function<void()> task);
  static void run(const std::shared_ptr<State>& state);
  Executor& executor_;
  std::shared_ptr<State> state_;
};

}  // namespace osm::inline v1
