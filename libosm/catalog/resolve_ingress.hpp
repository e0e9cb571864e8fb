// Gives Services the callers from outside of the mesh that IngressBackends admit. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "endpoint/source_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// A source Service.
struct SourceCallers {
  std::vector<std::string> addresses;  // ordered; without workloads of the mesh
  std::vector<WorkloadName> meshed;    // workloads of the mesh behind it, ordered
  // Machines of other namespaces that claim one of `addresses`: address → the first by name.
  std::map<std::string, WorkloadName> claimed{};

  friend bool operator==(const SourceCallers&, const SourceCallers&) = default;
};
using Sources = std::map<ServiceName, SourceCallers>;

// A workload proves its identity and has permissions of its own, so an address does not admit it.
// The author of a machine writes its address freely. So a machine takes an address only from
// Services of its own namespace, and only a pod, whose address the platform tells, from all.
Sources resolve_sources(const endpoint::SourceTable::Addresses& addresses,
                        const Table<model::WorkloadEntry>& workloads);

// Sets the callers of `services`, which are ordered by name. `policies`: ordered by key; of several
// IngressBackends with one backend the first counts. `obeyed`: MeshConfig's
// enableIngressBackendPolicy. Result: IngressBackends without effect, in full or in part, with the
// reason.
std::vector<Problem> resolve_ingress(const Table<Policy>& policies, const Sources& sources,
                                     bool obeyed, std::vector<model::ServiceEntry>& services);

}  // namespace osm::inline v1::catalog
