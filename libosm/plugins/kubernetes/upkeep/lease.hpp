// Leader election: the holder of a Lease (coordination.k8s.io/v1) writes.
//
// The holder renews the Lease. If the Lease stands still for its duration, another replica takes
// it. Each replica judges that by its own monotonic clock, so clocks need not agree. A holder that
// could not renew in time stops before another replica may begin.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <string>

#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class Lease {
 public:
  // The Lease of the options' mesh, "osm-controller-<mesh>". `on_acquired` runs on the blocking
  // executor, each time after it is acquired.
  Lease(const UpkeepOptions& options, std::function<void()> on_acquired);
  // Releases the Lease, so that another replica need not wait. Blocking: for some calls of the API.
  ~Lease();

  // Ends renewing, acquiring and callbacks. The Lease is held until it expires, or this is
  // destroyed. Blocking: until a running call of the API has returned.
  void stop() { strand_.stop(); }

  // True while this replica holds it. Thread: any. Blocking: no.
  bool held() const;

 private:
  Pause tick();
  void look();
  bool renew();
  void hold(boost::json::object lease, SteadyTime asked);
  bool expired(const boost::json::object& lease);

  Api& api_;
  const Runtime runtime_;
  const std::string ns_;
  const std::string name_;
  const std::string identity_;  // of this replica
  const std::function<void()> on_acquired_;
  std::atomic<SteadyTime::rep> held_until_{SteadyTime::min().time_since_epoch().count()};
  std::string
      seen_version_;  // version of the Lease; the next has the time since which it stands still
  SteadyTime seen_since_{};
  // As this replica wrote it last; nullopt: it is read before it is written.
  std::optional<boost::json::object> ours_;
  bool settled_ = false;  // at the last look this replica or another one had renewed it
  Strand strand_;
  Round round_;
};

}  // namespace osm::inline v1::kubernetes
