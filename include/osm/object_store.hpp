// The seam under MeshSpec and the VM provider: list, get and watch objects by kind, wherever they
// are stored (a directory, Kubernetes, etcd). A store keeps what it last read; calls read that.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Result: the objects of a kind, ordered by namespace and name; shared and immutable.
  // Failure: none; an unreadable source keeps its last content and shows in list_problems().
  // Thread: any. Blocking: no (reads the store's memory).
  virtual std::vector<std::shared_ptr<const Object>> list(std::string_view kind) const = 0;

  // Result: the object, or null when there is none. Thread: any. Blocking: no.
  virtual std::shared_ptr<const Object> get(const ObjectKey& key) const = 0;

  // Whether the first complete read has happened, and every source could be read in it.
  // Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;

  // Reads now what was changed before this call, and tells subscribers, rather than when the store
  // comes to it. Result: false when it is not done yet, or cannot be, within `timeout`.
  // Thread: any but the store's. Blocking: up to `timeout`.
  virtual bool catch_up(std::chrono::milliseconds timeout) {
    static_cast<void>(timeout);
    return true;  // a store that is never behind
  }

  // What is wrong with sources and documents (syntax, duplicates, size), ordered. Problems of an
  // object's meaning are its reader's. Thread: any. Blocking: no.
  virtual std::vector<Problem> list_problems() const = 0;

  // Calls `on_change` with the keys that were added, changed or removed; with an empty list when
  // only has_synced() or list_problems() changed. State is read by key, never sent.
  // Thread: of the store, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1
