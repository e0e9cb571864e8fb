// The statuses that a MemoryApi has, as a store tells of them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kubernetes/mesh_resources.hpp"
#include "kubernetes/upkeep/status_writer.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"

namespace osm::kubernetes_test {

// The statuses that the API server has, or had when `lag` began.
class ServerStatuses final : public kubernetes::StoredStatuses {
 public:
  explicit ServerStatuses(MemoryApi& api) : api_(api) {}
  kubernetes::StoredStatus status_of(const ObjectKey& key) const override {
    if (lagging) return late;
    const spec::Kind* kind = spec::find_kind(kinds_, key.group_kind());
    const boost::json::object object = api_.at(kubernetes::resource_of(*kind), key.ns, key.name);
    kubernetes::StoredStatus stored{nullptr, kubernetes::metadata_of(object).version};
    if (const boost::json::value* status = object.if_contains("status"))
      stored.status = std::make_shared<const boost::json::value>(*status);
    return stored;
  }
  Subscription subscribe_statuses(std::function<void(const std::vector<ObjectKey>&)>) override {
    return {};
  }
  void lag(const ObjectKey& key) {
    late = status_of(key);
    lagging = true;
  }

  bool lagging = false;
  kubernetes::StoredStatus late;

 private:
  MemoryApi& api_;
  const spec::Kinds kinds_ = spec::mesh_kinds();
};

}  // namespace osm::kubernetes_test
