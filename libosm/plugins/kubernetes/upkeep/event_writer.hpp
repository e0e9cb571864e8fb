// Events (events.k8s.io/v1) for what is wrong with objects: what `kubectl describe` and
// `kubectl events` show.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kubernetes/client/api.hpp"
#include "kubernetes/upkeep/rate.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

// "invalid-field" → "InvalidField": reasons of conditions and Events.
std::string reason_text(ErrorCode code);

class EventWriter {
 public:
  // `store` outlives it.
  EventWriter(Api& api, const Runtime& runtime, const ObjectStore& store, std::string replica);

  // Writes one Event for each problem that was not told yet, as far as the rate allows; the rest
  // is told by a later call. The name of an Event follows from what it says, so that replicas that
  // take turns say it once. What has no effect is no Event. Blocking: for calls of the API.
  void tell(const std::vector<Problem>& problems);
  // Whether the rate held some back.
  bool behind() const { return behind_; }

 private:
  bool write(const Problem& problem, const Object& object);

  Api& api_;
  const Runtime runtime_;
  const ObjectStore& store_;
  const std::string replica_;
  RateLimit budget_;
  std::set<Problem> told_;  // of those that are there now
  bool behind_ = false;
};

}  // namespace osm::inline v1::kubernetes
