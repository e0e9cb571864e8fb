// Which of several replicas writes: the holder of a Lease (coordination.k8s.io/v1).
//
// Whoever holds it renews it; when the Lease stands still for its duration, somebody else takes it.
// That is judged by this replica's own monotonic clock, so that clocks that disagree decide
// nothing; a holder that could not renew in time stops before anybody else may begin.
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
  std::string identity;  // of this replica; no other has it
  std::chrono::seconds duration{15};
  std::chrono::seconds renew_deadline{10};  // less than `duration`
  std::chrono::seconds retry{2};
};

class Lease {
 public:
  // `on_acquired` runs on the blocking executor, after each time it is acquired.
  Lease(Api& api, const Runtime& runtime, LeaseOptions options, std::function<void()> on_acquired);
  // Gives it up, so that another replica need not wait. Blocking: for some calls of the API.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Neither renews nor acquires it any more, and calls nobody back. It is held until it runs out,
  // or this is destroyed. Blocking: until a call of the API that is under way has returned.
  void stop();

  // Whether this replica holds it at this moment. Thread: any. Blocking: no.
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
  std::string seen_version_;  // of the Lease, and since when it stands still
  SteadyTime seen_since_{};
  bool failing_ = false;
  Strand strand_;
  Subscription timer_;
};

}  // namespace osm::inline v1::kubernetes
