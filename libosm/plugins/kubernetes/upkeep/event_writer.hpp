// Events (events.k8s.io/v1) for problems of objects, shown by `kubectl describe` and `kubectl
// events`.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rate_limit.hpp"
#include "kubernetes/client/api.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

// "invalid-field" → "InvalidField": reasons of conditions and Events.
std::string reason_text(ErrorCode code);

// At most `bytes` of a text, cut between characters.
std::string cut(std::string text, std::size_t bytes);

// Writes an Event of `replica` about `object`, once: the Event's name follows from its content.
// Failure, blocking: as Api.
Status write_event(Api& api, const Runtime& runtime, const std::string& replica,
                   const Problem& problem, const Object& object);

class EventWriter {
 public:
  // `store` outlives it.
  EventWriter(Api& api, const Runtime& runtime, const ObjectStore& store, std::string replica);

  // Writes one Event per new problem, as far as the rate allows; a later call writes the rest. The
  // name of an Event follows from its content, so that alternating replicas write it once. Fields
  // without effect are no Events. Blocking: for calls of the API.
  void tell(const std::vector<Problem>& problems);
  // True if the rate delayed some.
  bool behind() const { return behind_; }

 private:
  bool write(const Problem& problem, const Object& object);

  Api& api_;
  const Runtime runtime_;
  const ObjectStore& store_;
  const std::string replica_;
  RateLimit budget_;
  std::optional<Problem> next_;  // the first to be told next; none: any
  std::set<Problem> told_;       // reported problems among the present ones
  bool behind_ = false;
};

}  // namespace osm::inline v1::kubernetes
