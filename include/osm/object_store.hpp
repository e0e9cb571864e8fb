// Lists, gets and watches objects by kind, for MeshSpec and the VM provider. Objects may be stored
// anywhere (a directory, Kubernetes, etcd). A store keeps its last read in memory; calls read that
// memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Result: the objects of a kind, ordered by namespace and name; shared and immutable.
  // Failure: none; if a source cannot be read, the store keeps its last content and lists the
  // problem.
  // Thread: any. Blocking: no (reads the store's memory).
  virtual std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const = 0;

  // Result: the object; null if there is none. Thread: any. Blocking: no.
  virtual std::shared_ptr<const Object> get(const ObjectKey& key) const = 0;

  // True once the first complete read has happened, and could read every source.
  // Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;

  // Reads changes of the object `key` that happened before this call, and notifies subscribers. A
  // store may read other changes as well.
  // Result: true if get() answers no older version of it now; false if that was not possible within
  // `timeout`.
  // Thread: any but the store's. Blocking: up to `timeout`, and until a running request has ended.
  virtual bool catch_up(const ObjectKey& key, std::chrono::milliseconds timeout) {
    static_cast<void>(key);
    static_cast<void>(timeout);
    return true;  // this store is never behind
  }

  // Faults of sources and documents (syntax, duplicates, size), ordered. The reader of an object
  // reports faults of its meaning. Thread: any. Blocking: no.
  virtual std::vector<Problem> list_problems() const = 0;

  // Calls `on_change` with the keys that were added, changed or removed. An empty list: only
  // has_synced() or list_problems() changed. The call carries no state; subscribers read it by key.
  // Thread: of the store, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1
