// Callers of ObjectStore::catch_up(), which wait until a store is as new as its source was.
// Header only, so that every library of this project has it beside a shared libosm.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "osm/executor.hpp"

namespace osm::inline v1 {

// Takes the answer to a caller. Expired once the caller has left, at its time-out.
using CatchUpCaller = std::weak_ptr<std::promise<bool>>;

// Not synchronized: part of a store, on its strand.
class CatchUpWaiters {
 public:
  // `seen`: the store is as new as this caller needs it. It is asked by settle() only, and not
  // after the caller has left.
  void add(CatchUpCaller caller, std::function<bool()> seen) {
    waiters_.emplace_back(std::move(caller), std::move(seen));
  }

  // Gives `answer` to each caller whose `seen` holds, and forgets callers that have left. The store
  // calls it after subscribers have been notified.
  void settle(bool answer) {
    std::erase_if(waiters_, [answer](const auto& waiter) {
      const auto caller = waiter.first.lock();
      if (caller && !waiter.second()) return false;
      if (caller) caller->set_value(answer);
      return true;
    });
  }

 private:
  std::vector<std::pair<CatchUpCaller, std::function<bool()>>> waiters_;
};

// Runs `begin` on the strand, which adds the caller to a CatchUpWaiters, and waits.
// Result: the answer; false without one in time. Thread: any but the strand's. Blocking: up to
// `timeout`.
inline bool wait_for_catch_up(Executor& strand, std::chrono::milliseconds timeout,
                              std::function<void(const CatchUpCaller&)> begin) {
  const auto caller = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = caller->get_future();
  strand.post([begin = std::move(begin), waiting = CatchUpCaller(caller)] { begin(waiting); });
  return answer.wait_for(timeout) == std::future_status::ready && answer.get();
}

}  // namespace osm::inline v1
