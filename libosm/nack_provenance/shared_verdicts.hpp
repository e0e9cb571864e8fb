// Tells the other replicas of the control plane what searches found: they try those objects first.
// A verdict is a hint there: a replica withholds an object only after its own search, since another
// replica's proxy may be lying.
// Thread: one strand.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "osm/log.hpp"
#include "osm/object.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::nack_provenance {

class SharedVerdicts {
 public:
  // As many are shared, the newest ones. A proxy's text is cut to so many bytes.
  static constexpr std::size_t kShared = 16;
  static constexpr std::size_t kTextBytes = 256;

  // Null: there are no other replicas. Lifetime: both outlive the value.
  SharedVerdicts(ReplicaBoard* board, LogSink& log) : board_(board), log_(log) {}

  // `evidence`: the proxy, and what it said.
  void share(const ObjectKey& object, const std::string& evidence);

  // The objects that replicas found, with the evidence, this one's own included.
  std::map<ObjectKey, std::string> list() const;

 private:
  ReplicaBoard* board_;
  LogSink& log_;
  std::vector<std::pair<ObjectKey, std::string>> own_;  // the newest last
};

}  // namespace osm::inline v1::nack_provenance
