// Statuses of objects as the API server has them. make_store's stores keep those of kinds with
// conditions beside the objects, which have none: a status is no part of the mesh.
#pragma once

#include <boost/json/value.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::kubernetes {

struct StoredStatus {
  std::shared_ptr<const boost::json::value> status{};  // null: none
  std::string version{};  // resourceVersion of the object; empty: there is no object
};

class StoredStatuses {
 public:
  virtual ~StoredStatuses() = default;

  // Thread: any. Blocking: no.
  virtual StoredStatus status_of(const ObjectKey& key) const = 0;
  // As ObjectStore::subscribe, of statuses alone. An object that is removed tells nothing.
  virtual Subscription subscribe_statuses(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1::kubernetes
