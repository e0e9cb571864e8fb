// Whose configuration one object can shape. Pure.
//
//   TrafficTarget              the destination and the sources
//   HTTPRouteGroup, TCPRoute   the parties of the targets that use it
//   Service                    who runs it, who may call it, who may call an apex that splits to it
//   TrafficSplit               the same of its apex and its backends
//   Workload                   its own proxy, and who may call its services
//   MeshConfig, Namespace      everybody; in permissive mode a Service, split or workload too
#pragma once

#include <set>
#include <vector>

#include "catalog/resolve_policies.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

struct ObjectScope {
  bool everything = false;
  std::set<ServiceIdentity> identities;  // every workload that runs as one of them
  std::set<ServiceName> services;        // every workload that runs one of them
  std::set<WorkloadName> workloads;

  void merge(const ObjectScope& other);
  friend bool operator==(const ObjectScope&, const ObjectScope&) = default;
};

// `index` is of `snapshot`. Kinds are as in model::Changes::objects; of an object that the snapshot
// does not hold the scope is mostly empty.
ObjectScope scope_of(const ObjectKey& object, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index);
ObjectScope scope_of(const Workload& workload, const model::MeshSnapshot& snapshot,
                     const PolicyIndex& index);

// The workloads of `snapshot` in the scope, ordered by what their proxies' certificates prove.
std::vector<std::shared_ptr<const model::WorkloadEntry>> workloads_in(
    const ObjectScope& scope, const model::MeshSnapshot& snapshot);

// The clients of every account behind `service`, and behind the apexes that split to it.
void add_clients(const ServiceName& service, const model::Table<model::ServiceEntry>& services,
                 const PolicyIndex& index, std::set<ServiceIdentity>& out);

// Whom a target names.
void add_parties(const model::TargetEntry& target, std::set<ServiceIdentity>& out);

}  // namespace osm::inline v1::catalog
