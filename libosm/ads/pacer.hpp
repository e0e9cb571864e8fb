// Ends streams a few at a time, so that their proxies do not all reconnect at once: when the server
// shuts down, when a root rotation recalls proxies, and when a change empties the configuration of
// many.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ads/class_table.hpp"
#include "base/backoff.hpp"
#include "osm/executor.hpp"

namespace osm::inline v1::ads {

// Thread: every function on the strand.
class Pacer {
 public:
  // A turn takes half of kTurn to all of it, at random. In a turn kBurst streams end at most, or
  // more if all would not have ended within their window otherwise.
  static constexpr std::chrono::milliseconds kTurn{100};
  static constexpr std::size_t kBurst = 10;

  // `end` ends a stream, whose reason is its second argument. Lifetime: `strand` and `rng` outlive
  // the pacer.
  Pacer(Executor& strand, Rng& rng, std::function<void(StreamId, const std::string&)> end)
      : strand_(strand), rng_(rng), end_(std::move(end)) {}

  // Ends the stream within `window` from now: at once while the turn has room. A stream that waits
  // already keeps its reason. Precondition: window >= kTurn.
  void add(StreamId id, const std::string& reason, std::chrono::nanoseconds window) {
    waiting_.try_emplace(id, reason);
    const auto turns = static_cast<std::size_t>(window / kTurn);
    burst_ = std::max(burst_, (waiting_.size() + turns - 1) / turns);
    if (!turn_) begin_turn();
    end_some();
  }
  // The stream has ended otherwise.
  void forget(StreamId id) { waiting_.erase(id); }

  std::size_t size() const { return waiting_.size(); }

 private:
  void begin_turn() {
    ended_ = 0;
    turn_ = strand_.post_after(kTurn - random_part(kTurn / 2, rng_), [this] { end_turn(); });
  }
  void end_turn() {
    if (ended_ == 0) return turn_.reset();
    begin_turn();
    end_some();
  }

  void end_some() {
    while (!waiting_.empty() && ended_ < burst_) {
      const auto next = waiting_.extract(waiting_.begin());
      ++ended_;
      end_(next.key(), next.mapped());  // may call this again
    }
    if (waiting_.empty()) burst_ = kBurst;
  }

  Executor& strand_;
  Rng& rng_;
  const std::function<void(StreamId, const std::string&)> end_;
  std::map<StreamId, std::string> waiting_;  // with their reasons; the oldest first
  std::size_t burst_ = kBurst;               // bound of a turn
  std::size_t ended_ = 0;                    // in this turn
  Subscription turn_;                        // empty: the last turn ended nothing
};

}  // namespace osm::inline v1::ads
