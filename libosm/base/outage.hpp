// A source that cannot be read: since when, and if that is a problem already.
// Header only, so that every library of this project has it beside a shared libosm.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "osm/clock.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// A source that fails for a shorter time is no problem: most restarts are over by then.
inline constexpr std::chrono::seconds kOutagePatience{5};

// The cause of a problem with the mesh's objects. `synced`: they have been read once.
inline std::string cause_of_outage(const Error& error, bool synced) {
  return error.message + (synced ? "; what was last read stays in force"
                                 : "; the mesh is not ready until it can be read");
}

// Problem: a value with ==. Thread: one strand, except for problem().
template <class Problem>
class Outage {
 public:
  // Logs one line when a problem begins, and with null when it has ended; not when it changes.
  using Log = std::function<void(const Problem* began)>;

  // Null `log`: the owner logs. Lifetime: `clock` outlives the outage.
  Outage(const Clock& clock, Log log, std::chrono::nanoseconds patience = kOutagePatience)
      : clock_(clock), log_(std::move(log)), patience_(patience) {}

  // Thread: any. Blocking: no.
  std::optional<Problem> problem() const {
    const std::lock_guard lock(mutex_);
    return problem_;
  }

  bool failing() const { return since_.has_value(); }
  // Time since the first failure; 0 if there is none.
  std::chrono::nanoseconds lasted() const {
    return since_ ? clock_.steady_now() - *since_ : std::chrono::nanoseconds(0);
  }

  // The source could not be read. A refusal is a problem at once: permissions do not return
  // quickly.
  void fail(ErrorCode code, Problem problem) {
    if (!since_) since_ = clock_.steady_now();
    last_ = std::move(problem);
    if (code == ErrorCode::kPermissionDenied || lasted() >= patience_) show();
  }
  // Makes the last failure a problem, for owners with a timer.
  void show() { set(last_, true); }
  // The source answers. `fault`: it has one that is no outage, and is a problem at once.
  void end(std::optional<Problem> fault = std::nullopt) {
    since_.reset();
    set(fault, true);
  }
  // As end(), without a line: nobody reads the source any more.
  void forget() {
    since_.reset();
    set(std::nullopt, false);
  }

  // True if problem() has changed since the last call.
  bool take_news() { return std::exchange(news_, false); }

 private:
  void set(const std::optional<Problem>& problem, bool logged) {
    if (problem_ == problem) return;
    const bool changes = problem_ && problem;
    {
      const std::lock_guard lock(mutex_);
      problem_ = problem;
    }
    news_ = true;
    if (log_ && logged && !changes) log_(problem ? &*problem : nullptr);
  }

  const Clock& clock_;
  const Log log_;
  const std::chrono::nanoseconds patience_;
  std::optional<SteadyTime> since_;  // the first failure
  std::optional<Problem> last_;
  bool news_ = false;
  mutable std::mutex mutex_;  // guards problem_, which the strand alone changes
  std::optional<Problem> problem_;
};

}  // namespace osm::inline v1
