// The proxies whose configuration depends on one object. Pure.
//
//   - MeshConfig, Namespace: all
//   - Workload: its own proxy, and identities that may call its services
//   - others: those that read an entry of its links, or of the links of an object that reads it. A
//     Service is read by the workloads that run it, and by the identities that may call it, or an
//     apex that splits to it
//   - in permissive mode a Service, or a workload with services: all
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "catalog/resolve_policies.hpp"
#include "model/links.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

struct ObjectScope {
  bool everything = false;
  std::set<ServiceIdentity> identities;  // all workloads that run as one of them
  std::set<ServiceName> services;        // all workloads that run one of them
  std::set<WorkloadName> workloads;

  void merge(const ObjectScope& other);
  friend bool operator==(const ObjectScope&, const ObjectScope&) = default;
};

// Entries that objects of a snapshot shape with the values of another object, by that object.
// scope_of() fills it when a scope first needs it, by one pass over the objects.
using ReaderEntries = std::optional<std::map<ObjectKey, std::vector<model::EntryKey>>>;

// `index` belongs to `snapshot`, and so does `readers`. Kinds are as in model::Changes::objects.
// An object that the snapshot does not hold concerns the readers of its key.
ObjectScope scope_of(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index, ReaderEntries& readers);
ObjectScope scope_of(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index);
ObjectScope scope_of(const Workload& workload, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index);

// False if nothing in `snapshot` comes from the object, although its specification has it: a flag
// is off, another object comes first, or all that it names is missing. True for objects that the
// snapshot does not hold, and for kinds whose values name no object.
// `objects`: those of the last build, which is newer than the snapshot if it changed nothing.
bool has_effect(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                const SpecSnapshot& objects);

// The workloads of `snapshot` in the scope, ordered by proxy key.
std::vector<std::shared_ptr<const model::WorkloadEntry>> workloads_in(
    const ObjectScope& scope, const model::MeshSnapshot& snapshot);

// The clients of every account behind one of `names`, and behind the apexes that split to it. An
// account, and a namespace with idle Services, is visited once, however many of `names` it is
// behind.
void add_clients(std::span<const ServiceName> names, const Table<model::ServiceEntry>& services,
                 const PolicyIndex& index, std::set<ServiceIdentity>& out);

// Adds the source and destination identities of a target.
void add_parties(const model::TargetEntry& target, std::set<ServiceIdentity>& out);

}  // namespace osm::inline v1::catalog
