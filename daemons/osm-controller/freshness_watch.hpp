// Keeps a replica's Freshness up to date: reads the board, publishes the address at which the
// others reach this replica's /version, and asks theirs while this replica is stale. The others
// have to be asked directly, because a replica that is cut off reads no board.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/freshness.hpp"
#include "base/strand.hpp"
#include "osm/net/address.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::controller {

struct FreshnessOptions {
  ReplicaBoard* board;  // null: there are no other replicas
  std::string replica;  // its name on the board
  OwnRuntime& runtime;
  std::chrono::seconds stale_after;
};

// Lifetime: everything borrowed outlives the watch. Thread: any.
class FreshnessWatch {
 public:
  explicit FreshnessWatch(const FreshnessOptions& options);
  ~FreshnessWatch();  // Blocking: for a question to another replica, a second
  FreshnessWatch(const FreshnessWatch&) = delete;

  // Where other replicas can ask this one. Without it, none does. Blocking: no.
  void announce(const net::Address& address);

  // Blocking: no.
  const Freshness& state() const { return freshness_; }

 private:
  void tick();
  void ask_others();
  std::optional<Freshness::Answer> ask(const Freshness::Peer& peer) const;

  const FreshnessOptions options_;
  Freshness freshness_;
  bool refusing_ = false;
  net::Lane waiting_;  // waits for other replicas
  Strand strand_;
  Subscription timer_;
};

}  // namespace osm::controller
