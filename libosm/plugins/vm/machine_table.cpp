#include "vm/machine_table.hpp"

#include <algorithm>
#include <utility>

#include "model/names.hpp"

namespace osm::inline v1::vm {
namespace {

ObjectKey key_of(const VirtualMachine& machine) {
  return {kKind, machine.name.ns, machine.name.name};
}

}  // namespace

void MachineTable::set_machine(const std::string& name, Machine machine) {
  machines_touched_ = true;
  if (machine) {
    machines_[name] = std::move(machine);
  } else {
    machines_.erase(name);
  }
}

void MachineTable::set_service(const std::string& name, std::shared_ptr<const Service> service) {
  if (service && service->selector.empty()) service = nullptr;
  const auto at = services_.find(name);
  const auto former = at == services_.end() ? nullptr : at->second;
  if (former == service) return;
  touched_services_.insert(name);
  if (former) former_services_.push_back(former);
  if (service) {
    services_[name] = std::move(service);
  } else {
    services_.erase(at);
  }
}

void MachineTable::clear() {
  cleared_ = machines_touched_ = true;
  machines_.clear();
  for (const auto& [name, service] : services_) touched_services_.insert(name);
  services_.clear();
}

ProxyId MachineTable::proxy_id(const VirtualMachine& machine) const {
  return machine.proxy_id ? *machine.proxy_id
                          : model::derived_proxy_id(trust_domain_, machine.name);
}

std::set<std::string> MachineTable::accept() {
  std::set<std::string> different;
  auto former = std::exchange(accepted_, {});
  conflicts_.clear();
  std::map<ProxyId, std::string> owners;
  for (const auto& [name, machine] : machines_) {
    const auto [owner, first] = owners.emplace(proxy_id(*machine), name);
    if (!first) {
      conflicts_.push_back({ErrorCode::kDuplicateObject, key_of(*machine), "", 0, "spec.proxyUUID",
                            "VirtualMachine " + machine->name.ns + '/' + owner->second +
                                " already has this proxy UUID and keeps it; give each its own"});
      continue;
    }
    accepted_.emplace(name, machine);
    const auto before = former.find(name);
    if (before == former.end() || before->second != machine) different.insert(name);
  }
  for (const auto& [name, machine] : former) {
    if (!accepted_.contains(name)) different.insert(name);
    // A Service may have selected its former labels, too.
    if (different.contains(name))
      for (const auto& [service_name, service] : services_)
        if (selects(*service, *machine)) touched_services_.insert(service_name);
  }
  return different;
}

MachineTable::ServiceState MachineTable::compute(const Service& service) const {
  ServiceState state;
  for (const auto& [name, machine] : accepted_) {
    if (!selects(service, *machine)) continue;
    for (const ServicePort& port : service.ports) {
      Endpoint endpoint;
      endpoint.address = machine->address;
      endpoint.service_port = port.name;
      endpoint.identity = identity_of(machine->account);
      if (const auto* target = std::get_if<Port>(&port.target_port)) {
        endpoint.port = *target;
      } else {
        const auto& target_name = std::get<std::string>(port.target_port);
        const auto named = machine->ports.find(target_name);
        if (named == machine->ports.end()) {
          state.problems.push_back(
              {ErrorCode::kDanglingReference, key_of(*machine), "", 0, "spec.ports",
               "Service " + service.name.str() + " sends port " +
                   std::to_string(number(port.port)) + " to the port named \"" + target_name +
                   "\", which is not here; add {name: " + target_name + ", port: ...}"});
          continue;
        }
        endpoint.port = named->second;
      }
      state.endpoints.push_back(std::move(endpoint));
    }
  }
  return state;
}

Workload MachineTable::workload_of(const VirtualMachine& machine) const {
  Workload workload{machine.name,    proxy_id(machine), machine.account,
                    machine.address, machine.ports,     {}};
  for (const auto& [name, service] : services_)
    if (selects(*service, machine)) workload.services.push_back(service->name);
  return workload;
}

MachineTable::Changes MachineTable::update() {
  Changes changes;
  std::set<std::string> touched_machines;
  if (std::exchange(machines_touched_, false)) touched_machines = accept();
  // A machine touches the Services that select it now; a Service touches the machines that it
  // selects or selected.
  for (const std::string& name : touched_machines)
    if (const auto at = accepted_.find(name); at != accepted_.end())
      for (const auto& [service_name, service] : services_)
        if (selects(*service, *at->second)) touched_services_.insert(service_name);
  const auto former = std::exchange(former_services_, {});
  const auto touched_services = std::exchange(touched_services_, {});
  for (const auto& [name, machine] : accepted_) {
    const bool was =
        std::any_of(former.begin(), former.end(),
                    [&, m = machine](const auto& service) { return selects(*service, *m); });
    const bool is = std::any_of(touched_services.begin(), touched_services.end(),
                                [&, m = machine](const std::string& s) {
                                  const auto at = services_.find(s);
                                  return at != services_.end() && selects(*at->second, *m);
                                });
    if (was || is) touched_machines.insert(name);
  }

  update_services(touched_services, changes);
  update_workloads(touched_machines, changes);
  return changes;
}

void MachineTable::update_services(const std::set<std::string>& touched, Changes& changes) {
  for (const std::string& name : touched) {
    const auto service = services_.find(name);
    if (service == services_.end()) {
      if (states_.erase(name) > 0) changes.services.push_back({ns_, name});
      continue;
    }
    ++changes.recomputed;
    ServiceState next = compute(*service->second);
    const auto [state, added] = states_.try_emplace(name);
    if (added || state->second.endpoints != next.endpoints)
      changes.services.push_back(service->second->name);
    state->second = std::move(next);
  }
}

void MachineTable::update_workloads(const std::set<std::string>& touched, Changes& changes) {
  for (const std::string& name : touched) {
    const auto machine = accepted_.find(name);
    const auto before = workloads_.find(name);
    if (machine == accepted_.end()) {
      if (before == workloads_.end()) continue;
      changes.workloads.push_back(before->second.name);
      workloads_.erase(before);
      continue;
    }
    Workload next = workload_of(*machine->second);
    if (before != workloads_.end() && before->second == next) continue;
    changes.workloads.push_back(next.name);
    workloads_[name] = std::move(next);
  }
}

std::optional<std::vector<Endpoint>> MachineTable::endpoints(const std::string& service) const {
  const auto at = states_.find(service);
  if (at == states_.end()) return std::nullopt;
  return at->second.endpoints;
}

void MachineTable::add_problems(std::vector<Problem>& out) const {
  out.insert(out.end(), conflicts_.begin(), conflicts_.end());
  for (const auto& [name, state] : states_)
    out.insert(out.end(), state.problems.begin(), state.problems.end());
}

}  // namespace osm::inline v1::vm
