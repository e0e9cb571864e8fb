// Leader election: the holder of a Lease (coordination.k8s.io/v1) writes.
//
// The holder renews the Lease. If the Lease stands still for its duration, another replica takes
// it. Each replica judges that by its own monotonic clock, so clocks need not agree. A holder that
// could not renew in time stops before another replica may begin.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <string>

#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

struct LeaseOptions {
  std::string ns;
  std::string name;
  std::string identity;  // of this replica; unique
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};  // less than `duration`
  std::chrono::seconds retry{2};
};

class Lease {
 public:
  // `on_acquired` runs on the blocking executor, each time after it is acquired.
  Lease(Api& api, const Runtime& runtime, LeaseOptions options, std::function<void()> on_acquired);
  // Releases the Lease, so that another replica need not wait. Blocking: for some calls of the API.
  ~Lease();

  // Ends renewing, acquiring and callbacks. The Lease is held until it expires, or this is
  // destroyed. Blocking: until a running call of the API has returned.
  void stop() { strand_.stop(); }

  // True while this replica holds it. Thread: any. Blocking: no.
  bool held() const;

 private:
  void tick();
  void look(SteadyTime asked);
  void create(SteadyTime asked);
  void write(boost::json::object lease, SteadyTime asked, bool taken);
  void acquired_until(SteadyTime until);
  bool expired(const boost::json::object& lease);

  Api& api_;
  const Runtime runtime_;
  const LeaseOptions options_;
  const std::function<void()> on_acquired_;
  std::atomic<SteadyTime::rep> held_until_{SteadyTime::min().time_since_epoch().count()};
  std::string
      seen_version_;  // version of the Lease; the next has the time since which it stands still
  SteadyTime seen_since_{};
  bool failing_ = false;
  Strand strand_;
  Subscription timer_;
};

}  // namespace osm::inline v1::kubernetes
