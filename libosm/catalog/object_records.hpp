// Since when each object is a part of the mesh: the memory behind "is this change live?".
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "catalog/object_scope.hpp"
#include "model/spec_objects.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

struct ObjectRecord {
  // The first generation that holds the object as it is, or holds it no more. A change without any
  // effect is live in the generation that was current then.
  std::uint64_t generation = 0;
  bool present = true;
  ObjectScope before;  // whom it concerned before it changed, for a while
};

// Whether `read` has the object as the specification has it now: the same, or neither has it.
// Workloads are no objects of the specification.
bool is_read(const ObjectKey& object, const MeshSpec& now, const model::SpecObjects& read);

class ObjectRecords {
 public:
  // For how many generations a removed object, and a former scope, are remembered: minutes, however
  // fast the mesh changes, and without end while it does not.
  static constexpr std::uint64_t kRemembered = 1024;

  // Scopes before a change add up while they are remembered: proxies may not have applied the
  // change before this one yet.
  void note(const ObjectKey& object, std::uint64_t generation, bool present, ObjectScope before);
  // The endpoints of `services` changed; `now`: those there are.
  void note_endpoints(const std::set<ServiceName>& services,
                      const model::Table<model::ServiceEndpoints>& now, std::uint64_t generation);

  std::optional<ObjectRecord> find(const ObjectKey& object) const;
  // When the endpoints of a service last changed; 0: never.
  std::uint64_t endpoints_changed(const ServiceName& service) const;

  std::size_t size() const { return records_.size(); }

 private:
  void forget(std::uint64_t now);

  std::map<ObjectKey, ObjectRecord> records_;
  std::deque<std::pair<std::uint64_t, ObjectKey>> passing_;  // those with something to forget
  std::map<ServiceName, std::uint64_t> endpoints_;
};

}  // namespace osm::inline v1::catalog
