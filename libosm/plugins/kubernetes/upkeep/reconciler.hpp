// Keeps a few objects of the API server in their wanted state, as far as it may: creates missing
// ones, restores changed ones, or reports both as a problem, a metric and an Event.
//
// A wanted object is a part of the real one. Members that others add stay, with two exceptions: a
// wanted empty map or list must stay empty, and a wanted null must be absent. Lists must equal the
// wanted ones. Repairs of an object that another writer changes repeatedly get growing delays, so
// that the two do not overload the API server.
//
// The label app.kubernetes.io/version has the version of the mesh that was installed last. In
// objects of a newer version only the CAs of webhooks are kept current.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

// True if `actual` has everything of `wanted`, as above. List items with a "name" may stand in any
// order.
bool holds(const boost::json::value& actual, const boost::json::value& wanted);

class Reconciler {
 public:
  // `replica` is named in Events, `osm_namespace` in the remedy of problems.
  Reconciler(Api& api, const Runtime& runtime, std::string replica, std::string osm_namespace);
  // Blocking: until a call of the API that is under way has returned.
  ~Reconciler() { strand_.stop(); }

  // Keeps this object, which has the label kNameLabel, from now on. Replaces the wanted object of
  // the same name. Thread: any. Blocking: no.
  void want(const Resource& resource, boost::json::object object, Repair repair);

  // Objects that are missing or not as wanted, and are not repaired. Thread: any. Blocking: no.
  std::vector<Problem> problems() const;

 private:
  using Key = std::pair<std::string_view, std::string>;  // the resource's plural, name
  struct Wanted {
    Resource resource;
    boost::json::object object;
    Repair repair = Repair::kReport;
    std::string uid{};  // of the object that was there last
    bool told = false;  // an Event tells of the problem
    bool seen = false;  // it was as wanted once: differences from now on are changes by others
    SteadyTime repaired{};
    std::chrono::nanoseconds spacing{};  // between two repairs
    std::chrono::nanoseconds backoff{};  // while the API server refuses
    Subscription retry{};
  };

  void follow(const Resource& resource);
  void look(const Key& key);
  std::string known_version(const Key& key) const;
  static boost::json::object mended(const Wanted& wanted, const boost::json::object& live);
  void accept(const Key& key, Wanted& wanted, const boost::json::object& live);
  // Ok: the object is as wanted, or a later look is scheduled.
  Status settle(const Key& key, Wanted& wanted);
  // `present`: the object as it is; empty: it is missing.
  Status put_back(const Wanted& wanted, const boost::json::object& present);
  Status write(const Wanted& wanted, const boost::json::object& present);
  // Adds the problem, and writes the Event. Failure: the Event's; a later look tries again.
  Status report(const Key& key, Wanted& wanted, bool missing);
  void clear(const Key& key, Wanted& wanted);
  void set_present(const Wanted& wanted, bool present);
  void note_repair(Wanted& wanted, bool deleted);
  void look_later(const Key& key, std::chrono::nanoseconds delay);

  Api& api_;
  const Runtime runtime_;
  const std::string replica_, osm_namespace_;
  mutable std::mutex mutex_;
  std::map<Key, Problem> problems_;  // guarded by mutex_
  std::map<Key, Wanted> wanted_;
  Strand strand_;
  std::map<std::string_view, std::unique_ptr<Informer>> informers_;  // by plural
};

}  // namespace osm::inline v1::kubernetes
