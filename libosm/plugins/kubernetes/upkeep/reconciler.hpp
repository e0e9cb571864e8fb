// Keeps a few objects of the API server as they should be: creates them, and restores them when
// somebody deletes or changes them.
//
// The wanted object is a part of the real one. Members that others add stay, with two exceptions:
// an empty map or list must stay empty, and a member that is null must be absent. Lists have
// exactly the wanted items. Objects of a newer version of the mesh are left alone. Repeated changes
// are undone ever more slowly, so that two writers who disagree do not keep the API server busy.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

// True if `actual` has everything of `wanted`, as above. List items with a "name" may stand in any
// order.
bool holds(const boost::json::value& actual, const boost::json::value& wanted);

class Reconciler {
 public:
  explicit Reconciler(Api& api, const Runtime& runtime);
  // Blocking: until a call of the API that is under way has returned.
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  // Keeps this object, which has the label kNameLabel, from now on. Replaces the wanted object of
  // the same name. Thread: any. Blocking: no.
  void want(const Resource& resource, boost::json::object object);

 private:
  using Key = std::pair<std::string_view, std::string>;  // the resource's plural, name
  struct Wanted {
    Resource resource;
    boost::json::object object;
    bool seen = false;  // it was as wanted once: differences from now on are changes by others
    SteadyTime repaired{};
    std::chrono::nanoseconds spacing{};  // from one repair to the next
    std::chrono::nanoseconds backoff{};  // while the API server refuses
    Subscription retry{};
  };

  void follow(const Resource& resource);
  void look(const Key& key);
  // Ok: the object is as wanted, or belongs to a newer version, or a later look is scheduled.
  Status settle(const Key& key, Wanted& wanted);
  Status write(const Wanted& wanted);
  void note_repair(Wanted& wanted, bool deleted);
  void look_later(const Key& key, std::chrono::nanoseconds delay);

  Api& api_;
  const Runtime runtime_;
  std::map<Key, Wanted> wanted_;
  Strand strand_;
  std::map<std::string_view, std::unique_ptr<Informer>> informers_;  // by plural
};

}  // namespace osm::inline v1::kubernetes
