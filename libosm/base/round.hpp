// Repeats one turn of work on a strand: when it is woken, and after a pause that the turn names.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "base/backoff.hpp"
#include "base/strand.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Time until the next turn, unless the round is woken before.
struct Pause {
  std::optional<std::chrono::nanoseconds> length{};  // absent: the round waits to be woken
  bool jitter = false;                               // up to a quarter more, at random
};

// All functions run on the strand.
struct RoundOptions {
  std::function<Pause()> turn;
  // While it returns false, `forget` runs in place of turns. Null: the round may always run.
  std::function<bool()> may_run{};
  std::function<void()> forget{};  // null: nothing
  Pause ask_again{};               // after `forget`
  // Time between a wake and its turn. Null: none.
  std::function<std::chrono::nanoseconds()> collect{};
};

// Lifetime: the strand and `rng` outlive the round. Its owner stops the strand before it destroys
// the round. The first turn comes after wake() or rest().
class Round {
 public:
  Round(Strand& strand, Rng& rng, RoundOptions options)
      : strand_(strand), rng_(rng), options_(std::move(options)) {}

  // One turn begins after this call and `collect`, in place of the rest of the pause. Calls until
  // then are for the same turn. A call inside a turn is for the next one. A call during a pause
  // that is not longer than `collect` does not delay its end. Thread: any. Blocking: no.
  void wake() {
    if (awake_.exchange(true)) return;
    strand_.post([this] {
      if (!awake_) return;  // a turn has begun since the call
      const std::chrono::nanoseconds wait = options_.collect ? options_.collect() : kNone;
      if (wait <= kNone) return run();
      timer_ = strand_.post_after(wait, [this] { run(); });
    });
  }

  // Begins this pause, unless a wake has no turn yet. Thread: any. Blocking: no.
  void rest(Pause pause) {
    strand_.post([this, pause] {
      if (!awake_) begin(pause);
    });
  }

  // True for the first failure since a success, which is worth a line in the log. On the strand.
  bool first_failure(const Status& status) {
    return !std::exchange(failing_, !status.ok()) && failing_;
  }

 private:
  static constexpr std::chrono::nanoseconds kNone{0};

  void run() {
    awake_.exchange(false);  // reads what the waking thread wrote before
    timer_.reset();
    if (!options_.may_run || options_.may_run()) return begin(options_.turn());
    if (options_.forget) options_.forget();
    begin(options_.ask_again);
  }

  void begin(Pause pause) {
    if (!pause.length) return;
    if (options_.collect && *pause.length <= options_.collect()) awake_ = true;
    timer_ = strand_.post_after(pause.jitter ? jittered(*pause.length, rng_) : *pause.length,
                                [this] { run(); });
  }

  Strand& strand_;
  Rng& rng_;
  const RoundOptions options_;
  std::atomic<bool> awake_{false};  // the next turn is near enough for wakes

  // On the strand.
  bool failing_ = false;
  Subscription timer_;
};

}  // namespace osm::inline v1
