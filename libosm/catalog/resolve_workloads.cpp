#include "catalog/resolve_workloads.hpp"

#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::catalog {
namespace {

model::ProxyKey key_of(const Workload& workload) { return {workload.name.ns, workload.proxy_id}; }

std::string describe(const MeshService& port) {
  return "port " + (port.port_name.empty() ? std::to_string(number(port.port)) : port.port_name) +
         " (" + std::string(protocol_text(port.protocol)) + ") of Service " + port.name.str();
}

// `example`: a workload with the conflict.
Problem port_problem(const model::PortConflict& conflict, const WorkloadName& example) {
  const MeshService& left_out = conflict.left_out;
  return {.code = ErrorCode::kConflictingProtocol,
          .object = {kinds::kService, left_out.name.ns, left_out.name.name},
          .path = {},
          .field = "spec.ports",
          .cause = describe(left_out) + " and " + describe(conflict.kept) + " share target port " +
                   std::to_string(number(left_out.target_port)) + " of workload " + example.str() +
                   "; the first by port name is kept: give both the same protocol or another "
                   "target port"};
}

}  // namespace

void WorkloadClaims::replace(std::size_t provider, std::vector<Workload> workloads) {
  std::map<WorkloadName, Workload> fresh;
  for (Workload& workload : workloads) {
    const WorkloadName name = workload.name;
    fresh.try_emplace(name, std::move(workload));
  }
  std::vector<WorkloadName> gone;
  for (const auto& [name, workload] : listed_[provider])
    if (!fresh.contains(name)) gone.push_back(name);
  for (const WorkloadName& name : gone) set(provider, name, std::nullopt);
  for (auto& [name, workload] : fresh) set(provider, name, std::move(workload));
}

void WorkloadClaims::set(std::size_t provider, const WorkloadName& name,
                         std::optional<Workload> workload) {
  auto& listed = listed_[provider];
  const auto held = listed.find(name);
  if (held != listed.end()) {
    if (workload && held->second == *workload) return;
    const model::ProxyKey key = key_of(held->second);
    touched_.insert(key);
    remove_member(claims_, key, std::pair(name, provider));
    listed.erase(held);
  }
  if (!workload) return;
  const model::ProxyKey key = key_of(*workload);
  touched_.insert(key);
  claims_[key].emplace(name, provider);
  listed.emplace(name, *std::move(workload));
}

void WorkloadClaims::set_monitored_namespaces(const std::set<std::string>& namespaces) {
  namespaces_ = namespaces;
  for (const auto& [key, claimants] : claims_) touched_.insert(key);
}

void WorkloadClaims::settle(TableEdit<model::WorkloadEntry>& edit) {
  for (const model::ProxyKey& key : std::exchange(touched_, {})) {
    problems_.erase(key);
    const auto claim = claims_.find(key);
    if (claim == claims_.end() || !namespaces_.contains(key.first)) {
      edit.remove(key);
      continue;
    }
    const Claimants& claimants = claim->second;
    if (claimants.size() > 1) {
      problems_[key] = problem_of(key, claimants);
      edit.remove(key);
      continue;
    }
    const auto& [name, provider] = *claimants.begin();
    edit.put({.proxy = key, .workload = listed_[provider].at(name)});
  }
}

Problem WorkloadClaims::problem_of(const model::ProxyKey& proxy, const Claimants& claimants) const {
  std::string names;
  for (const auto& [name, provider] : claimants) names += (names.empty() ? "" : ", ") + name.str();
  const WorkloadName& first = claimants.begin()->first;
  return {.code = ErrorCode::kDuplicateObject,
          .object = {model::kWorkloadKind, first.ns, first.name},
          .path = {},
          .field = {},
          .cause = "proxy UUID " + proxy.second.str() + " is claimed by " + names +
                   "; none of them is served: give each a UUID of its own"};
}

void WorkloadClaims::add_problems(std::vector<Problem>& out) const {
  for (const auto& [key, problem] : problems_) out.push_back(problem);
}

void PortConflicts::update(const model::Changes& changes,
                           const model::Table<model::WorkloadEntry>& before,
                           const model::Table<model::WorkloadEntry>& now,
                           const model::Table<model::ServiceEntry>& services) {
  for (const model::ProxyKey& proxy : changes.workloads) {
    if (const auto old = before.find(proxy))
      for (const ServiceName& service : old->workload.services)
        remove_member(of_service_, service, proxy);
    if (const auto fresh = now.find(proxy))
      for (const ServiceName& service : fresh->workload.services)
        of_service_[service].insert(proxy);
  }
  std::set<model::ProxyKey> concerned = changes.workloads;
  for (const ServiceName& service : changes.services)
    if (const auto* workloads = find_in(of_service_, service))
      concerned.insert(workloads->begin(), workloads->end());
  for (const model::ProxyKey& proxy : concerned) {
    const auto entry = now.find(proxy);
    conflicts_.erase(proxy);
    if (!entry) continue;
    auto found = model::own_ports_of(services, entry->workload).conflicts;
    if (!found.empty()) conflicts_[proxy] = std::move(found);
  }
}

void PortConflicts::add_problems(const model::Table<model::WorkloadEntry>& now,
                                 std::vector<Problem>& out) const {
  std::map<model::PortConflict, WorkloadName> examples;  // the first workload that has it
  for (const auto& [proxy, conflicts] : conflicts_)
    for (const model::PortConflict& conflict : conflicts)
      examples.try_emplace(conflict, now.find(proxy)->workload.name);
  for (const auto& [conflict, example] : examples) out.push_back(port_problem(conflict, example));
}

}  // namespace osm::inline v1::catalog
