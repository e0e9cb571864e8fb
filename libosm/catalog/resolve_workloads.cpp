#include "catalog/resolve_workloads.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace osm::catalog {
namespace {

std::string describe(const MeshService& port) {
  return "port " + (port.port_name.empty() ? std::to_string(number(port.port)) : port.port_name) +
         " (" + std::string(protocol_text(port.protocol)) + ") of Service " + port.name.str();
}

}  // namespace

ResolvedWorkloads resolve_workloads(std::vector<Workload> workloads,
                                    const std::set<std::string>& monitored_namespaces) {
  std::map<model::ProxyKey, std::vector<Workload>> claims;
  for (Workload& workload : workloads)
    if (monitored_namespaces.contains(workload.name.ns))
      claims[{workload.name.ns, workload.proxy_id}].push_back(std::move(workload));

  ResolvedWorkloads out;
  for (auto& [proxy, claimants] : claims) {
    if (claimants.size() == 1) {
      out.workloads.push_back({.proxy = proxy, .workload = std::move(claimants.front())});
      continue;
    }
    std::sort(claimants.begin(), claimants.end(),
              [](const Workload& a, const Workload& b) { return a.name < b.name; });
    std::string names;
    for (const Workload& claimant : claimants)
      names += (names.empty() ? "" : ", ") + claimant.name.str();
    out.problems.push_back(
        {.code = ErrorCode::kDuplicateObject,
         .object = {"Workload", claimants.front().name.ns, claimants.front().name.name},
         .path = {},
         .field = {},
         .cause = "proxy UUID " + proxy.second.str() + " is claimed by " + names +
                  "; none of them is served: give each a UUID of its own"});
  }
  return out;
}

Problem port_problem(const model::PortConflict& conflict, const WorkloadName& example) {
  const MeshService& left_out = conflict.left_out;
  return {.code = ErrorCode::kConflictingProtocol,
          .object = {"Service", left_out.name.ns, left_out.name.name},
          .path = {},
          .field = "spec.ports",
          .cause = describe(left_out) + " and " + describe(conflict.kept) + " share target port " +
                   std::to_string(number(left_out.target_port)) + " of workload " + example.str() +
                   "; the first by port name is kept: give both the same protocol or another "
                   "target port"};
}

}  // namespace osm::catalog
