#include "admin/handlers.hpp"

#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "admin/admin_json.hpp"
#include "admin/vm_bootstrap.hpp"
#include "base/json.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/providers/drained_machines.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

Result<DrainedMachines*> drained_of(const net::AdminApiOptions& options) {
  if (options.drained) return options.drained;
  return Error{ErrorCode::kNotFound, "this control plane drains no machines"};
}

std::optional<Workload> machine_named(const net::AdminApiOptions& options,
                                      const WorkloadName& machine) {
  return options.workloads ? options.workloads->find_workload(machine) : std::nullopt;
}

}  // namespace

Result<net::Response> drain_vm(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(DrainedMachines * drained, drained_of(options));
  OSM_TRY(const json::object body, body_of(request));
  OSM_TRY(const WorkloadName machine, machine_of(body));
  const bool undo = bool_at(body, "undo").value_or(false);
  const auto workload = machine_named(options, machine);
  if (undo) {
    OSM_TRY(drained->take_back(machine));
  } else {
    if (!workload)
      return Error{ErrorCode::kNotFound, "the mesh has no VirtualMachine " + machine.str() +
                                             "; `osm problems` tells what was left out"};
    OSM_TRY(drained->drain(machine, workload->proxy_id));
  }
  options.runtime.log.info(undo ? "machine taken back into its services" : "machine drained",
                           {{"workload", machine.str()}, {"client", request.client}});
  return answer(json::object{{"namespace", machine.ns},
                             {"name", machine.name},
                             {"drained", !undo},
                             {"uuid", workload ? workload->proxy_id.str() : ""}});
}

Result<net::Response> vm_drained(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(DrainedMachines * drained, drained_of(options));
  OSM_TRY(const std::string name, request.required("name"));
  OSM_TRY(const std::string ns, request.required("namespace"));
  const auto workload = machine_named(options, {ns, name});
  const bool is_drained = workload && drained->contains({ns, name}, workload->proxy_id);
  return answer(json::object{{"drained", is_drained ? 1 : 0}, {"controllers", 1}});
}

}  // namespace osm::inline v1::admin
