// Keeps a few objects of the API server as they should be: created when missing, put back when
// somebody deletes or changes them.
//
// What is wanted is a part of an object: members that others add are theirs, but for an empty map
// or list, which must stay empty, and for null, which must not be there. Lists are as wanted, no
// longer and no shorter. Objects that a newer version of the mesh wrote are left to it, and whoever
// changes an object again and again is answered ever more slowly, so that two who disagree do not
// keep the API server busy.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <utility>

#include "base/strand.hpp"
#include "kubernetes/client/surroundings.hpp"

namespace osm::inline v1::kubernetes {

// Whether `actual` has everything of `wanted`, as above. Members of lists that have a "name" may
// stand in any order.
bool holds(const boost::json::value& actual, const boost::json::value& wanted);

class Reconciler {
 public:
  explicit Reconciler(const Surroundings& surroundings);
  // Blocking: until a call of the API that is under way has returned.
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  // From now on there is this object, which carries the label kNameLabel. Replaces what was wanted
  // under its name. Thread: any. Blocking: no.
  void want(const Resource& resource, boost::json::object object);

 private:
  using Key = std::pair<std::string_view, std::string>;  // the resource's plural, name
  struct Wanted {
    Resource resource;
    boost::json::object object;
    bool seen = false;  // it was once as wanted: what differs from now on is drift
    SteadyTime repaired{};
    std::chrono::nanoseconds spacing{};  // from one repair to the next
    std::chrono::nanoseconds backoff{};  // while the API server refuses
    Subscription retry{};
  };

  void watch(const Resource& resource);
  void on_watch_end(const Resource& resource, const Status& status);
  void look(const Key& key);
  // Ok: it is as wanted now, or another's, or will be looked at again.
  Status settle(const Key& key, Wanted& wanted);
  Status write(const Wanted& wanted);
  void note_repair(Wanted& wanted, bool deleted);
  void look_later(const Key& key, std::chrono::nanoseconds delay);
  void look_at_all();

  const Surroundings with_;
  std::map<Key, Wanted> wanted_;
  std::map<std::string_view, Subscription> watches_;
  std::map<std::string_view, Subscription> rewatch_;
  Subscription timer_;
  Strand strand_;
};

}  // namespace osm::inline v1::kubernetes
