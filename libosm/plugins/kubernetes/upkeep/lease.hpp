// Leader election of a board: the holder of a Lease (coordination.k8s.io/v1) leads.
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
#include "base/stands.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class Lease {
 public:
  // The Lease of the options' mesh, "osm-controller-<mesh>". It is not asked for before stand().
  explicit Lease(const ReplicaBoardOptions& options);
  // Releases the Lease if it is held. Blocking: then for some calls of the API.
  ~Lease();

  // Ends renewing, acquiring, releasing and callbacks, like a killed replica.
  // Blocking: until a running call of the API has returned.
  void stop() { strand_.stop(); }

  // As ReplicaBoard::leads() and ReplicaBoard::stand(). Callbacks run on the blocking executor.
  bool leads() const { return stands_.any() && held(); }
  Subscription stand(std::function<void()> on_begin) { return stands_.add(std::move(on_begin)); }

 private:
  Pause tick();
  bool held() const;
  void release();
  void look();
  bool renew();
  void hold(boost::json::object lease, SteadyTime asked);
  bool expired(const boost::json::object& lease);

  Api& api_;
  const Runtime runtime_;
  const std::string ns_;
  const std::string name_;
  const std::string identity_;  // of this replica
  std::atomic<SteadyTime::rep> held_until_{SteadyTime::min().time_since_epoch().count()};
  std::string
      seen_version_;  // version of the Lease; the next has the time since which it stands still
  SteadyTime seen_since_{};
  // As this replica wrote it last; nullopt: it is read before it is written.
  std::optional<boost::json::object> ours_;
  bool settled_ = false;  // at the last look this replica or another one had renewed it
  Strand strand_;
  Round round_;
  Stands stands_;
};

}  // namespace osm::inline v1::kubernetes
