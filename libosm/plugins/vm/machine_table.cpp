#include "vm/machine_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/maps.hpp"
#include "model/names.hpp"

namespace osm::inline v1::vm {
namespace {

ObjectKey key_of(const VirtualMachine& machine) {
  return {kinds::kVirtualMachine, machine.name.ns, machine.name.name};
}

}  // namespace

void MachineTable::set_machine(const std::string& name, DecodedVirtualMachine machine) {
  problems_touched_ |= put_or_erase(
      invalid_, name,
      machine.problems.empty() ? std::nullopt : std::optional(std::move(machine.problems)));
  const VirtualMachine* former = find_in(machines_, name);
  std::set<std::string> selected_by;
  if (former) selected_by = selectors_.matching(former->labels);
  if (!put_or_erase(machines_, name, std::move(machine.value))) return;
  touched_machines_.insert(name);
  touched_services_.merge(selected_by);
}

void MachineTable::set_service(const std::string& name, std::shared_ptr<const Service> service) {
  if (service && service->selector.empty()) service = nullptr;
  selectors_.set(name, service ? service->selector : endpoint::Labels());
  if (put_or_erase(services_, name, service ? std::optional(std::move(service)) : std::nullopt))
    touched_services_.insert(name);
}

ProxyId MachineTable::proxy_id(const VirtualMachine& machine) const {
  return machine.proxy_id ? *machine.proxy_id
                          : model::derived_proxy_id(trust_domain_, machine.name);
}

bool MachineTable::accept(std::set<std::string>& touched) {
  std::vector<Problem> conflicts;
  std::set<std::string> accepted;
  std::map<ProxyId, std::string> owners;
  for (const auto& [name, machine] : machines_) {
    const auto [owner, first] = owners.emplace(proxy_id(machine), name);
    if (first) {
      accepted.insert(name);
    } else {
      conflicts.push_back({ErrorCode::kDuplicateObject, key_of(machine), "", 0, "spec.proxyUUID",
                           "VirtualMachine " + machine.name.ns + '/' + owner->second +
                               " already has this proxy UUID and keeps it; give each its own"});
    }
  }
  std::set_symmetric_difference(accepted.begin(), accepted.end(), accepted_.begin(),
                                accepted_.end(), std::inserter(touched, touched.end()));
  accepted_ = std::move(accepted);
  return std::exchange(conflicts_, conflicts) != conflicts;
}

endpoint::ServiceState MachineTable::compute(const Service& service) const {
  endpoint::ServiceState state;
  for (const std::string& name : accepted_) {
    const VirtualMachine& machine = machines_.at(name);
    if (!endpoint::selects(service.selector, machine.labels)) continue;
    for (const ServicePort& port : service.ports) {
      Endpoint out;
      out.address = machine.address;
      out.service_port = port.name;
      out.identity = identity_of(machine.account);
      if (const auto* target = std::get_if<Port>(&port.target_port)) {
        out.port = *target;
      } else {
        const auto& target_name = std::get<std::string>(port.target_port);
        const Port* named = find_in(machine.ports, target_name);
        if (!named) {
          state.problems.push_back(
              {ErrorCode::kDanglingReference, key_of(machine), "", 0, "spec.ports",
               "Service " + service.name.str() + " sends port " +
                   std::to_string(number(port.port)) + " to the port named \"" + target_name +
                   "\", which is not here; add {name: " + target_name + ", port: ...}"});
          continue;
        }
        out.port = *named;
      }
      state.endpoints.push_back(std::move(out));
    }
  }
  return state;
}

Workload MachineTable::workload_of(const VirtualMachine& machine) const {
  Workload workload{machine.name,    proxy_id(machine), machine.account,
                    machine.address, machine.ports,     {}};
  for (const std::string& service : selectors_.matching(machine.labels))
    workload.services.push_back({ns_, service});
  return workload;
}

endpoint::TableChanges MachineTable::update() {
  endpoint::TableChanges changes;
  changes.problems = std::exchange(problems_touched_, false);
  std::set<std::string> machines = std::exchange(touched_machines_, {});
  if (!machines.empty()) changes.problems |= accept(machines);
  // A machine touches the Services that select it; a Service touches the machines that it selects
  // or selected.
  for (const std::string& name : machines)
    if (const VirtualMachine* machine = find_in(machines_, name))
      touched_services_.merge(selectors_.matching(machine->labels));
  if (const auto selectors = selectors_.take_changed(); !selectors.empty())
    for (const std::string& name : accepted_)
      if (!selectors.matching(machines_.at(name).labels).empty()) machines.insert(name);

  for (const std::string& name : std::exchange(touched_services_, {})) {
    const auto* service = find_in(services_, name);
    states_.set(name, service ? std::optional(compute(**service)) : std::nullopt, changes);
  }
  for (const std::string& name : machines)
    if (put_or_erase(workloads_, name,
                     accepted_.contains(name) ? std::optional(workload_of(machines_.at(name)))
                                              : std::nullopt))
      changes.workloads.push_back({ns_, name});
  return changes;
}

void MachineTable::add_problems(std::vector<Problem>& out) const {
  out.insert(out.end(), conflicts_.begin(), conflicts_.end());
  for (const auto& [name, problems] : invalid_)
    out.insert(out.end(), problems.begin(), problems.end());
}

}  // namespace osm::inline v1::vm
