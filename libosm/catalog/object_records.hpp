// Records since which generation each object is part of the mesh, for
// ControlPlane::object_status().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/spec_tables.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

struct ObjectRecord {
  // The first generation that holds the object's present value, or that no longer holds the object.
  // A change without effect counts for the generation that was current then.
  std::uint64_t generation = 0;
  bool present = true;
  std::set<model::EntryKey> before;  // its entries before the change, kept for a while
};

// True if `read` has the same value of the object as the specification now, or neither has the
// object. Workloads are no objects of the specification.
bool is_read(const ObjectKey& object, const SpecSnapshot& now, const SpecSnapshot& read);

class ObjectRecords {
 public:
  // Number of generations for which a removed object and former entries are remembered: minutes,
  // however fast the mesh changes; without limit while it does not change.
  static constexpr std::uint64_t kRemembered = 1024;

  // Former entries accumulate while they are remembered: proxies may not have applied the previous
  // change yet.
  void note(const ObjectKey& object, std::uint64_t generation, bool present,
            std::set<model::EntryKey> before);
  // Records that the endpoints of `services` changed; `now`: all present services with endpoints.
  void note_endpoints(const std::set<ServiceName>& services,
                      const Table<model::ServiceEndpoints>& now, std::uint64_t generation);

  // Records that `generation` announced endpoints that came with the generations `since`, and
  // waited for their proxies.
  void note_announced(const std::set<std::uint64_t>& since, std::uint64_t generation);
  // The newest generation that announced endpoints which came with `generation`; at least it.
  std::uint64_t completed_in(std::uint64_t generation) const;

  std::optional<ObjectRecord> find(const ObjectKey& object) const;
  // Generation in which the endpoints of a service last changed; 0: never.
  std::uint64_t endpoints_changed(const ServiceName& service) const;

  // The changes after a generation.
  struct Late {
    std::vector<std::pair<std::uint64_t, ObjectKey>> objects{};
    std::vector<std::pair<std::uint64_t, ServiceName>> endpoints{};  // of services
  };
  Late changed_after(std::uint64_t generation) const;

  std::size_t size() const { return records_.size(); }

 private:
  void forget(std::uint64_t now);

  std::map<ObjectKey, ObjectRecord> records_;
  std::deque<std::pair<std::uint64_t, ObjectKey>> passing_;  // records with something to forget
  std::map<ServiceName, std::uint64_t> endpoints_;
  std::map<std::uint64_t, std::uint64_t> completed_;
};

}  // namespace osm::inline v1::catalog
