// Evens out the streams of a control plane's replicas. Each replica publishes the number of its
// streams, and one that has many more than the others ends some: their proxies connect again, and
// whatever is before the replicas sends them to a random one. So only replicas with too many act,
// and each round leaves a fraction of the excess.
//
// A number is published when it has changed, so replicas at rest write nothing. Not synchronized.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::ads {

class StreamBalance {
 public:
  static constexpr const char* kTopic = "streams";
  static constexpr std::chrono::seconds kPublish{5};  // the least time between two numbers
  // Time between two decisions. The streams that one has ended are in the numbers of the next.
  static constexpr std::chrono::seconds kRound{10};

  // Lifetime: `board` outlives the object. Null: there are no other replicas.
  explicit StreamBalance(ReplicaBoard* board) : board_(board) {}

  // `streams`: number of them here; none: this replica takes no new ones now, and does not count.
  // Result: number of streams to end. Call it every second.
  std::size_t tick(SteadyTime now, std::optional<std::size_t> streams);

  // Result: number of streams by which `own` exceeds the mean of `all`, `own` among them, and a
  // tenth, rounded up.
  static std::size_t excess(std::size_t own, const std::vector<std::size_t>& all);

 private:
  void publish(SteadyTime now, std::optional<std::size_t> streams);

  ReplicaBoard* const board_;
  std::string text_;  // published last
  std::optional<SteadyTime> published_at_;
  std::optional<SteadyTime> decided_at_;
};

}  // namespace osm::inline v1::ads
