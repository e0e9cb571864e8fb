// Workloads of all providers → by what a proxy certificate proves. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "model/own_ports.hpp"
#include "osm/object.hpp"
#include "osm/workload.hpp"

namespace osm::catalog {

struct ResolvedWorkloads {
  std::vector<model::WorkloadEntry> workloads;  // ordered by proxy
  std::vector<Problem> problems;
};

// Workloads of monitored namespaces. A proxy UUID that several of a namespace claim is nobody's:
// choosing one would let whoever copies a UUID take the other's place.
ResolvedWorkloads resolve_workloads(std::vector<Workload> workloads,
                                    const std::set<std::string>& monitored_namespaces);

// What operators read about two service ports that cannot share a target port; `example` is a
// workload where they meet.
Problem port_problem(const model::PortConflict& conflict, const WorkloadName& example);

}  // namespace osm::catalog
