#include "endpoint/machine_table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/maps.hpp"
#include "model/ip_address.hpp"
#include "model/machine_names.hpp"
#include "model/names.hpp"

namespace osm::inline v1::endpoint {
namespace {

// Limit on the cost of one object (docs/adr/0019).
constexpr std::size_t kMaxInstances = 1000;

}  // namespace

MachineTable::MachineTable(MachineTableOptions options, std::string ns)
    : options_(std::move(options)), ns_(std::move(ns)), states_(ns_) {}

ObjectKey MachineTable::key_of(const std::string& machine) const {
  return {options_.kind, ns_, machine};
}

void MachineTable::set_machine(const std::string& name, DecodedMachine machine) {
  problems_touched_ |= put_or_erase(
      invalid_, name,
      machine.problems.empty() ? std::nullopt : std::optional(std::move(machine.problems)));
  const Machine* former = find_in(machines_, name);
  std::set<std::string> selected_by;
  const std::string former_resource = former ? former->resource : "";
  if (former) selected_by = selectors_.matching(former->labels);
  if (!put_or_erase(machines_, name, std::move(machine.value))) return;
  if (!former_resource.empty()) remove_member(by_resource_, former_resource, name);
  const Machine* now = find_in(machines_, name);
  if (now && !now->resource.empty()) by_resource_[now->resource].insert(name);
  touched_machines_.insert(name);
  touched_services_.merge(selected_by);
}

void MachineTable::set_service(const std::string& name, std::shared_ptr<const Service> service) {
  if (service && service->selector.empty()) service = nullptr;
  selectors_.set(name, service ? service->selector : Labels());
  if (put_or_erase(services_, name, service ? std::optional(std::move(service)) : std::nullopt))
    touched_services_.insert(name);
}

bool MachineTable::touch_resources(const std::set<std::string>& ids) {
  bool here = false;
  for (const std::string& id : ids)
    if (const auto* machines = find_in(by_resource_, id)) {
      touched_machines_.insert(machines->begin(), machines->end());
      here = true;
    }
  return here;
}

void MachineTable::touch_machine(const std::string& name) {
  if (machines_.contains(name)) touched_machines_.insert(name);
}

TableChanges MachineTable::update() {
  TableChanges changes;
  changes.problems = std::exchange(problems_touched_, false);
  std::set<std::string> machines = std::exchange(touched_machines_, {});
  for (const std::string& name : machines) {
    const Machine* machine = find_in(machines_, name);
    const Members* known = find_in(members_, name);
    std::optional<Members> next;
    if (machine) next = members_of(*machine);
    // While a changed id has no answer, the machines behind the last id stay.
    if (next && known && !machine->resource.empty() && !options_.find(machine->resource))
      next->list = known->list;
    const std::vector<Problem> none;
    changes.problems |= (known ? known->problems : none) != (next ? next->problems : none);
    put_or_erase(members_, name, std::move(next));
  }
  if (!machines.empty()) changes.problems |= accept(machines);
  // A machine touches the Services that select it; a Service touches the machines that it selects
  // or selected.
  for (const std::string& name : machines)
    if (const Machine* machine = find_in(machines_, name))
      touched_services_.merge(selectors_.matching(machine->labels));
  if (const auto selectors = selectors_.take_changed(); !selectors.empty())
    for (const auto& [name, machine] : machines_)
      if (!selectors.matching(machine.labels).empty()) machines.insert(name);

  for (const std::string& name : std::exchange(touched_services_, {})) {
    const auto* service = find_in(services_, name);
    states_.set(name, service ? std::optional(compute(**service)) : std::nullopt, changes);
  }
  set_workloads(machines, changes);
  return changes;
}

void MachineTable::add_problems(std::vector<Problem>& out) const {
  out.insert(out.end(), conflicts_.begin(), conflicts_.end());
  for (const auto& [name, problems] : invalid_)
    out.insert(out.end(), problems.begin(), problems.end());
  for (const auto& [name, members] : members_)
    out.insert(out.end(), members.problems.begin(), members.problems.end());
}

MachineTable::Member MachineTable::named_after(const Machine& machine, std::string name) const {
  Member out;
  out.proxy_id = machine.proxy_id && name == machine.name.name
                     ? *machine.proxy_id
                     : model::derived_proxy_id(options_.trust_domain, {ns_, name});
  out.name = std::move(name);
  out.address = machine.address;
  out.ports = machine.ports;
  return out;
}

MachineTable::Members MachineTable::members_of(const Machine& machine) const {
  Members out;
  if (machine.resource.empty()) {
    Member own = named_after(machine, machine.name.name);
    if (options_.is_drained && options_.is_drained({ns_, own.name}, own.proxy_id))
      out.problems.push_back({ErrorCode::kUnusedField, key_of(own.name), "", 0, "",
                              "is drained, so clients send it no new requests; `osm vm drain " +
                                  own.name + " -n " + ns_ + " --undo` takes it back"});
    out.list.push_back(std::move(own));
  } else if (const auto resolution = options_.find(machine.resource)) {
    add_instances(machine, *resolution, out);
  }
  return out;
}

void MachineTable::add_instances(const Machine& machine, const Resolution& resolution,
                                 Members& out) const {
  const std::string& name = machine.name.name;
  const auto refuse = [&](ErrorCode code, std::string cause) {
    out.problems.push_back({code, key_of(name), "", 0, "spec", std::move(cause)});
  };
  std::vector<const ResourceInstance*> usable;
  for (const ResourceInstance& instance : resolution.instances) {
    if (model::is_ipv6(instance.address)) {
      refuse(ErrorCode::kUnusedField, "the IPv6 address " + instance.address +
                                          " is left out, since sidecars listen on IPv4 only; give "
                                          "the machine an IPv4 address");
    } else if (!model::is_unicast_ipv4(instance.address)) {
      refuse(ErrorCode::kInvalidField, "an instance has the address '" + instance.address +
                                           "', which is left out: it " + model::kNotUnicast);
    } else {
      usable.push_back(&instance);
    }
    if (out.problems.size() + usable.size() >= kMaxInstances) {
      refuse(ErrorCode::kTooLarge, "has more than " + std::to_string(kMaxInstances) +
                                       " instances; the others are left out: use several objects");
      break;
    }
  }
  const auto fill = [&](Member& member, const ResourceInstance& instance) {
    member.address = instance.address;
    member.zone = instance.zone;
    member.weight = instance.weight;
    member.healthy = instance.healthy;
    if (instance.port && !machine.port_name.empty())
      member.ports.emplace(machine.port_name, *instance.port);
  };
  if (!resolution.scales && !usable.empty()) {
    Member first = named_after(machine, name);
    fill(first, *usable.front());
    first.serves = usable.front()->name.empty();
    out.list.push_back(std::move(first));
  }
  for (const ResourceInstance* instance : usable) {
    if (instance->name.empty() && !resolution.scales) continue;
    const std::string full = name + '-' + instance->name;
    if (!is_dns_label(full)) {
      refuse(ErrorCode::kInvalidField, "the instance '" + instance->name + "' is left out: '" +
                                           full + "' " + machines::kNotALabel);
      continue;
    }
    fill(out.list.emplace_back(named_after(machine, full)), *instance);
  }
}

// Decides which members keep their UUID, and adds the machines for which that changed to `touched`.
// Result: true if the conflicts are others than before.
bool MachineTable::accept(std::set<std::string>& touched) {
  std::vector<Problem> conflicts;
  std::set<std::pair<std::string, std::string>> refused;
  std::map<ProxyId, const std::string*> owners;
  for (const auto& [name, members] : members_) {
    for (const Member& member : members.list) {
      const auto [owner, first] = owners.emplace(member.proxy_id, &member.name);
      if (first) continue;
      refused.emplace(name, member.name);
      conflicts.push_back({ErrorCode::kDuplicateObject, key_of(name), "", 0, "spec.proxyUUID",
                           std::string(options_.kind.kind) + ' ' + ns_ + '/' + *owner->second +
                               " already has this proxy UUID and keeps it; give each its own"});
    }
  }
  std::vector<std::pair<std::string, std::string>> changed;
  std::set_symmetric_difference(refused.begin(), refused.end(), refused_.begin(), refused_.end(),
                                std::back_inserter(changed));
  for (const auto& [name, member] : changed) touched.insert(name);
  refused_ = std::move(refused);
  return std::exchange(conflicts_, conflicts) != conflicts;
}

void MachineTable::add_endpoints(const Service& service, const Machine& machine,
                                 ServiceState& state) const {
  for (const ServicePort& port : service.ports) {
    bool reported = false;
    for (const Member& member : members_.at(machine.name.name).list) {
      if (!member.serves || refused_.contains({machine.name.name, member.name})) continue;
      if (options_.is_drained && options_.is_drained({ns_, member.name}, member.proxy_id)) continue;
      Endpoint out;
      out.address = member.address;
      out.service_port = port.name;
      out.identity = identity_of(machine.account);
      out.zone = member.zone;
      out.weight = member.weight;
      out.healthy = member.healthy;
      if (const auto* target = std::get_if<Port>(&port.target_port)) {
        out.port = *target;
      } else {
        const auto& target_name = std::get<std::string>(port.target_port);
        const Port* named = find_in(member.ports, target_name);
        if (!named) {
          if (!std::exchange(reported, true))
            state.problems.push_back(
                {ErrorCode::kDanglingReference, key_of(machine.name.name), "", 0, "spec.ports",
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
}

ServiceState MachineTable::compute(const Service& service) const {
  ServiceState state;
  for (const auto& [name, machine] : machines_)
    if (selects(service.selector, machine.labels)) add_endpoints(service, machine, state);
  return state;
}

void MachineTable::add_workloads(const std::string& name,
                                 std::map<std::string, Workload>& out) const {
  const Machine* machine = find_in(machines_, name);
  if (!machine) return;
  for (const Member& member : members_.at(name).list) {
    if (refused_.contains({name, member.name})) continue;
    Workload workload{{ns_, member.name}, member.proxy_id, machine->account,
                      member.address,     member.ports,    {}};
    workload.claimed_by = key_of(name);
    workload.created = machine->created;
    workload.labels = machine->labels;
    workload.labels.erase(model::kDnsAnnotation);  // the annotation alone asks
    if (machine->dns) workload.labels.emplace(model::kDnsAnnotation, model::kDnsEnabled);
    for (const std::string& service : selectors_.matching(machine->labels))
      workload.services.push_back({ns_, service});
    out.emplace(member.name, std::move(workload));
  }
}

// Together, since one machine may take over a workload's name from another.
void MachineTable::set_workloads(const std::set<std::string>& machines, TableChanges& changes) {
  std::map<std::string, Workload> all;
  std::set<std::string> former;
  for (const std::string& machine : machines) {
    std::map<std::string, Workload> own;
    add_workloads(machine, own);
    std::set<std::string> names;
    for (const auto& [name, workload] : own) names.insert(name);
    if (auto* known = find_in(workload_names_, machine)) former.merge(*known);
    workload_names_.erase(machine);
    if (!names.empty()) workload_names_.emplace(machine, std::move(names));
    all.merge(own);
  }
  for (const std::string& name : former)
    if (!all.contains(name) && workloads_.erase(name) > 0) changes.workloads.push_back({ns_, name});
  for (auto& [name, workload] : all)
    if (put_or_erase(workloads_, name, std::move(workload)))
      changes.workloads.push_back({ns_, name});
}

}  // namespace osm::inline v1::endpoint
