// Runs one clause of a conformance suite on a thread of its own, with a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/guarded.hpp"
#include "testing/verdict.hpp"

namespace osm::inline v1::testing {

// `check` runs the clause; it gets a function that notes its present step, for the report of a
// hang. It owns copies of all that it uses, because a thread that hangs is abandoned.
inline Verdict try_clause(
    const ConformanceClause& clause, std::chrono::milliseconds deadline, const std::string& subject,
    std::function<Verdict(const std::function<void(std::string)>& on_step)> check) {
  // Shared by the clause's thread and its waiting thread; it outlives both.
  struct Trial {
    std::mutex mutex;
    std::string step = "making the platform";
  };
  const auto trial = std::make_shared<Trial>();
  std::packaged_task<Verdict()> run([trial, subject, check = std::move(check)] {
    auto verdict = guarded([&] {
      return check([trial](std::string what) {
        const std::lock_guard lock(trial->mutex);
        trial->step = std::move(what);
      });
    });
    if (verdict.ok()) return *std::move(verdict);
    return failed("nothing of a " + subject + " or of its platform throws",
                  verdict.error().message);
  });
  auto verdict = run.get_future();
  std::thread thread(std::move(run));
  Verdict result;
  if (verdict.wait_for(deadline) == std::future_status::ready) {
    thread.join();
    result = verdict.get();
  } else {
    thread.detach();
    const std::lock_guard lock(trial->mutex);
    result = failed("every call returns: the clause must end within " +
                        std::to_string(deadline.count()) + " ms",
                    "it hangs while " + trial->step);
  }
  result.clause = clause;
  return result;
}

}  // namespace osm::inline v1::testing
