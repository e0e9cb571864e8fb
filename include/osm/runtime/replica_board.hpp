// What the replicas of a control plane tell each other: one small text per replica and topic. On
// Kubernetes it stands on a Lease that each replica has (osm/kubernetes/upkeep.hpp); a replica that
// died falls off when its Lease runs out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API ReplicaBoard {
 public:
  virtual ~ReplicaBoard() = default;

  // Puts `text` (UTF-8, at most 100 kB, 250 kB with all other topics, no secret) under this
  // replica's name in place of the last one of `topic` (a-z, 0-9, '-'; 63 characters at most).
  // Written as soon as the store allows, no faster than once a second, and kept until the board
  // dies. Failure: kInvalidArgument, and what was said before stands. Thread: any. Blocking: no.
  virtual Status publish(const std::string& topic, std::string text) = 0;

  // By replica: what the ones that live and take part in this topic said last of it, this one
  // included; "" of one that has said nothing yet. One that is seen for the first time counts as
  // living until its Lease has stood still; one that is cut off from the store does not, though it
  // may go on serving proxies.
  // Failure: kUnavailable, when it is not known who lives.
  // Thread: any. Blocking: no.
  virtual Result<std::map<std::string, std::string>> read(const std::string& topic) const = 0;

  // Calls `on_change` when somebody said something, came or went.
  // Thread: the board's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) = 0;
};

// A board of one, where there is one controller: machines, tests. `replica`: its name.
// Lifetime: `executor` outlives it; callbacks run there. Thread: any. Blocking: no.
OSM_API std::unique_ptr<ReplicaBoard> make_local_board(std::string replica, Executor& executor);

}  // namespace osm::inline v1
