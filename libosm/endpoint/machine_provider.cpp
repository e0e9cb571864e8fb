#include "endpoint/machine_provider.hpp"

#include <boost/json.hpp>

#include "base/json.hpp"

namespace osm::inline v1::endpoint {
namespace {

Labels selector_of(const Object& service) {
  Labels out;
  for (const auto& [label, value] : map_at(map_at(*service.document, "spec"), "selector"))
    if (const auto* text = value.if_string()) out.emplace(label, std::string(*text));
  return out;
}

using Tables = std::map<std::string, MachineTable>;

void add_shared_addresses(const MachineProviderOptions& options, const Tables& tables,
                          std::vector<Problem>& out) {
  for (const auto& [ns, table] : tables) {
    std::map<std::string, WorkloadName> owners;  // the catalog decides between namespaces
    for (const auto& [name, workload] : table.workloads()) {
      const auto [owner, first] = owners.emplace(workload.address, workload.name);
      if (!first)
        out.push_back({ErrorCode::kConflictingAddress,
                       {options.kind, ns, name},
                       "",
                       0,
                       "spec.address",
                       workload.address + " is also the address of " +
                           std::string(options.kind.kind) + ' ' + owner->second.str() +
                           "; give each machine its own"});
    }
  }
}

void add_unresolved(const MachineProviderOptions& options, const Tables& tables,
                    std::vector<Problem>& out) {
  std::map<std::string, ResourceProblem> by_id;
  if (options.resolver)
    for (ResourceProblem& problem : options.resolver->list_problems()) {
      if (problem.id.empty())
        out.push_back({problem.code, {}, "resolver " + options.id, 0, "", problem.cause});
      by_id.emplace(problem.id, std::move(problem));
    }
  for (const auto& [ns, table] : tables) {
    for (const auto& [id, machines] : table.resources()) {
      const ResourceProblem* problem = find_in(by_id, id);
      for (const std::string& machine : machines) {
        const ObjectKey key{options.kind, ns, machine};
        if (problem)
          out.push_back({problem->code, key, "", 0, "spec", problem->cause});
        else if (!options.resolver)
          out.push_back({ErrorCode::kUnusedField, key, "", 0, "spec", options.unresolved});
      }
    }
  }
}

}  // namespace

void MachineAddresses::set_object(const ObjectKey& key, const Object* object) {
  if (key.is(kinds::kService)) {
    put_or_erase(selectors_, key.name, object ? std::optional(selector_of(*object)) : std::nullopt);
  } else {
    put_or_erase(machines_, key.name, object ? decode_(*object).value : std::nullopt);
  }
}

std::set<std::string> MachineAddresses::addresses_of(const std::string& service) const {
  std::set<std::string> out;
  const auto* selector = find_in(selectors_, service);
  if (!selector || selector->empty()) return out;
  for (const auto& [name, machine] : machines_) {
    if (!selects(*selector, machine.labels)) continue;
    if (machine.resource.empty()) out.insert(machine.address);
    if (machine.resource.empty() || !resolver_) continue;
    if (const auto resolution = resolver_->find(machine.resource))
      for (const ResourceInstance& instance : resolution->instances) out.insert(instance.address);
  }
  return out;
}

std::set<std::string> MachineAddresses::resources() const {
  std::set<std::string> out;
  for (const auto& [name, machine] : machines_)
    if (!machine.resource.empty()) out.insert(machine.resource);
  return out;
}

void add_shared_problems(const MachineProviderOptions& options, const Tables& tables,
                         const SourceAddresses& sources, std::vector<Problem>& out) {
  for (const auto& object : options.store.list(options.kind))
    if (!tables.contains(object->key.ns) && !sources.follows(object->key.ns))
      out.push_back({ErrorCode::kDanglingReference, object->key, "", 0, "metadata.namespace",
                     "namespace " + object->key.ns +
                         " is not in the mesh, so this machine is ignored; label its Namespace "
                         "object with openservicemesh.io/monitored-by"});
  // An address that a platform tells is no field that somebody could correct.
  if (options.kind == kinds::kVirtualMachine) add_shared_addresses(options, tables, out);
  add_unresolved(options, tables, out);
}

}  // namespace osm::inline v1::endpoint
