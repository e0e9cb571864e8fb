#include "osm/spec/vm_provider.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "endpoint/selector_index.hpp"
#include "endpoint/store_provider.hpp"
#include "model/names.hpp"
#include "vm/virtual_machine.hpp"

namespace osm::inline v1::vm {
namespace {

ObjectKey key_of(const VirtualMachine& machine) {
  return {kinds::kVirtualMachine, machine.name.ns, machine.name.name};
}

// Joins the machines and Services of one namespace: accepted machines, selections, and the effects
// of a change. Plain data; not thread-safe.
class MachineTable {
 public:
  MachineTable(TrustDomain trust_domain, std::string ns)
      : trust_domain_(std::move(trust_domain)), ns_(ns), states_(std::move(ns)) {}

  // Sets a machine; a removed machine is an empty value. Nothing is recomputed before update().
  void set_machine(const std::string& name, DecodedVirtualMachine machine) {
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

  // Sets or (null) removes. A Service without a selector selects nothing and counts as removed.
  void set_service(const std::string& name, std::shared_ptr<const Service> service) {
    if (service && service->selector.empty()) service = nullptr;
    selectors_.set(name, service ? service->selector : endpoint::Labels());
    if (put_or_erase(services_, name, service ? std::optional(std::move(service)) : std::nullopt))
      touched_services_.insert(name);
  }

  // Recomputes everything that the changes since the last call touch.
  endpoint::TableChanges update() {
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

  const endpoint::ServiceStates& services() const { return states_; }
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Adds problems besides those of services(), without path and line, in any order.
  void add_problems(std::vector<Problem>& out) const {
    out.insert(out.end(), conflicts_.begin(), conflicts_.end());
    for (const auto& [name, problems] : invalid_)
      out.insert(out.end(), problems.begin(), problems.end());
  }

 private:
  ProxyId proxy_id(const VirtualMachine& machine) const {
    return machine.proxy_id ? *machine.proxy_id
                            : model::derived_proxy_id(trust_domain_, machine.name);
  }

  // Decides which machines keep their UUID, and adds those for which that changed to `touched`.
  // Result: true if the conflicts are others than before.
  bool accept(std::set<std::string>& touched) {
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

  endpoint::ServiceState compute(const Service& service) const {
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

  Workload workload_of(const VirtualMachine& machine) const {
    Workload workload{machine.name,    proxy_id(machine), machine.account,
                      machine.address, machine.ports,     {}};
    workload.labels = machine.labels;
    for (const std::string& service : selectors_.matching(machine.labels))
      workload.services.push_back({ns_, service});
    return workload;
  }

  TrustDomain trust_domain_;
  std::string ns_;
  std::map<std::string, VirtualMachine> machines_;
  std::map<std::string, std::vector<Problem>> invalid_;
  std::map<std::string, std::shared_ptr<const Service>> services_;
  endpoint::ServiceSelectors selectors_;

  std::set<std::string> accepted_;
  std::vector<Problem> conflicts_;
  endpoint::ServiceStates states_;
  std::map<std::string, Workload> workloads_;

  std::set<std::string> touched_services_;
  std::set<std::string> touched_machines_;
  bool problems_touched_ = false;
};

endpoint::Labels selector_of(const Object& service) {
  endpoint::Labels out;
  for (const auto& [label, value] : map_at(map_at(*service.document, "spec"), "selector"))
    if (const auto* text = value.if_string()) out.emplace(label, std::string(*text));
  return out;
}

// The machines of one namespace, in the mesh or not, behind its Services.
class MachineAddresses final : public endpoint::AddressTable {
 public:
  void set_object(const ObjectKey& key, const Object* object) override {
    if (key.is(kinds::kService)) {
      put_or_erase(selectors_, key.name,
                   object ? std::optional(selector_of(*object)) : std::nullopt);
    } else {
      put_or_erase(machines_, key.name,
                   object ? decode_virtual_machine(*object).value : std::nullopt);
    }
  }

  std::set<std::string> addresses_of(const std::string& service) const override {
    std::set<std::string> out;
    const auto* selector = find_in(selectors_, service);
    if (!selector || selector->empty()) return out;
    for (const auto& [name, machine] : machines_)
      if (endpoint::selects(*selector, machine.labels)) out.insert(machine.address);
    return out;
  }

 private:
  std::map<std::string, endpoint::Labels> selectors_;  // by Service
  std::map<std::string, VirtualMachine> machines_;
};

// Adds machines outside the mesh, and addresses that several machines of the mesh have.
void add_shared_problems(const ObjectStore& store,
                         const std::map<std::string, MachineTable>& tables,
                         const endpoint::SourceAddresses& sources, std::vector<Problem>& out) {
  for (const auto& object : store.list(kinds::kVirtualMachine))
    if (!tables.contains(object->key.ns) && !sources.follows(object->key.ns))
      out.push_back({ErrorCode::kDanglingReference, object->key, "", 0, "metadata.namespace",
                     "namespace " + object->key.ns +
                         " is not in the mesh, so this machine is ignored; label its Namespace "
                         "object with openservicemesh.io/monitored-by"});
  std::map<std::string, WorkloadName> owners;
  for (const auto& [ns, table] : tables) {
    for (const auto& [name, workload] : table.workloads()) {
      const auto [owner, first] = owners.emplace(workload.address, workload.name);
      if (!first)
        out.push_back({ErrorCode::kConflictingAddress,
                       {kinds::kVirtualMachine, ns, name},
                       "",
                       0,
                       "spec.address",
                       workload.address + " is also the address of VirtualMachine " +
                           owner->second.str() + "; give each machine its own"});
    }
  }
}

}  // namespace

std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options) {
  return std::make_unique<endpoint::StoreProvider<VmProvider, MachineTable>>(
      endpoint::StoreProviderOptions<MachineTable>{
          .id = "vm",
          .kinds = {kinds::kVirtualMachine},
          .store = options.store,
          .mesh_spec = options.mesh_spec,
          .log = options.log,
          .metrics = options.metrics,
          .synced_message = "virtual machines read",
          .recomputed_metric = "osm_vm_services_recomputed_total",
          .make_table = [domain = options.trust_domain](
                            const std::string& ns) { return MachineTable(domain, ns); },
          .read =
              [&metrics = options.metrics](MachineTable& table, const ObjectKey& key,
                                           const Object* object) {
                if (object) metrics.add("osm_vm_decoded_total", {}, 1);
                table.set_machine(
                    key.name, object ? decode_virtual_machine(*object) : DecodedVirtualMachine());
              },
          .add_problems =
              [&store = options.store](const auto& tables, const auto& sources,
                                       std::vector<Problem>& out) {
                add_shared_problems(store, tables, sources, out);
              },
          .source_kinds = {kinds::kService, kinds::kVirtualMachine},
          .make_sources = [] { return std::make_unique<MachineAddresses>(); }});
}

}  // namespace osm::inline v1::vm
