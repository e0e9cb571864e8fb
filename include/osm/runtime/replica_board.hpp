// Messages between the replicas of a control plane, one small text per replica and topic, and the
// choice of the replica that leads: it does what one replica at a time may do. On Kubernetes the
// text is on a Lease per replica (osm/kubernetes/upkeep.hpp). A dead replica disappears when its
// Lease expires.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API ReplicaBoard {
 public:
  virtual ~ReplicaBoard() = default;

  // Publishes `text` (UTF-8, at most 100 kB, 250 kB with all other topics, no secret) under this
  // replica's name, in place of its last text of `topic` (a-z, 0-9, '-'; at most 63 characters).
  // The board writes it as soon as the store allows, at most once a second, and keeps it until the
  // board dies.
  // Failure: kInvalidArgument; the last text stays. Thread: any. Blocking: no.
  virtual Status publish(const std::string& topic, std::string text) = 0;

  // Last texts of `topic` by replica, for all live replicas that take part in the topic, this one
  // included; "" if a replica has published nothing yet. A new replica counts as live until its
  // Lease has stood still. A replica that is cut off from the store does not count as live, though
  // it may go on serving proxies.
  // Failure: kUnavailable, if the live replicas are not known.
  // Thread: any. Blocking: no.
  virtual Result<std::map<std::string, std::string>> read(const std::string& topic) const = 0;

  // Time of the newest proof that this replica and the server of the mesh's objects reach each
  // other: what this replica wrote at that time came back. Before the first proof: the beginning.
  // nullopt: objects come from elsewhere, and each answers for its own. Thread: any. Blocking: no.
  virtual std::optional<SteadyTime> confirmed_at() const { return std::nullopt; }

  // Calls `on_change` when a replica published a text, appeared or disappeared.
  // Thread: the board's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void()> on_change) = 0;

  // True while this replica leads. At no time do two replicas lead, and a replica leads only while
  // it holds a handle of stand(). Ask before each write: a replica that is cut off from the store
  // stops to lead before another one may begin. Thread: any. Blocking: no.
  virtual bool leads() const = 0;

  // Lets this replica lead while a handle lives. `on_begin` is called each time it begins to lead,
  // and once if it leads already; null: nothing is called. Destroying the last handle resigns:
  // leads() is false at once, and another replica with a handle need not wait. So writing stops
  // before its handle dies.
  // Thread: any; `on_begin` as subscribe(). Blocking: no; the handle's destructor waits for a
  // running `on_begin`. Lifetime: the handle dies before the board.
  virtual Subscription stand(std::function<void()> on_begin) = 0;
};

// A board for a single controller, which leads while it holds a handle: machines, tests. `replica`:
// its name.
// Lifetime: `executor` outlives it; callbacks run there. Thread: any. Blocking: no.
OSM_API std::unique_ptr<ReplicaBoard> make_local_board(std::string replica, Executor& executor);

}  // namespace osm::inline v1
