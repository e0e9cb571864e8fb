#include <algorithm>

#include "explain/call.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::explain {

void explain_outside(const ExplainedCall& call, const std::string& host, Explanation& out) {
  const auto& workloads = call.mesh.workloads;
  const auto meshed = std::find_if(workloads.begin(), workloads.end(), [&](const auto& entry) {
    return entry->workload.address == host;
  });
  if (meshed != workloads.end()) {
    out.ways.push_back(
        refusal(step("destination", StepEffect::kDenies,
                     host + " is the address of workload " + (*meshed)->workload.name.str() +
                         ", and no headless Service that " + call.source.str() +
                         " may call has it at this port: dial a Service of the workload"),
                0));
    return;
  }
  if (!call.egress()) {
    out.ways.push_back(explain_egress(call, host));
    return;
  }
  ExplainedWay way;
  way.port = call.question.port;
  if (model::is_ipv4(host)) way.addresses = {host};
  way.answer = {.allowed = true};
  way.steps.push_back(step("egress", StepEffect::kAllows,
                           "egress is on, so the call leaves the mesh as it is",
                           model::mesh_config_key(), "spec.traffic.enableEgress"));
  out.ways.push_back(std::move(way));
}

}  // namespace osm::inline v1::explain
