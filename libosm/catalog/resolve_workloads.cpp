#include "catalog/resolve_workloads.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/maps.hpp"
#include "model/machine_names.hpp"

namespace osm::inline v1::catalog {
namespace {

std::pair<std::string, ProxyId> claim_of(const Workload& workload) {
  return {workload.name.ns, workload.proxy_id};
}

std::string describe(const Workload& workload) {
  return (workload.kind == WorkloadKind::kPod ? "Pod " : "machine ") + workload.name.str();
}

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
    const Claim claim = claim_of(held->second);
    touched_.insert(claim);
    remove_member(claims_, claim, std::pair(name, provider));
    listed.erase(held);
  }
  addresses_.set_workload(provider, name, workload ? &*workload : nullptr);
  if (!workload) return;
  const Claim claim = claim_of(*workload);
  touched_.insert(claim);
  claims_[claim].emplace(name, provider);
  listed.emplace(name, *std::move(workload));
}

void WorkloadClaims::set_monitored_namespaces(const std::set<std::string>& namespaces) {
  namespaces_ = namespaces;
  touch_all();
}

void WorkloadClaims::set_denials(std::shared_ptr<const Denials> denials) {
  denials_ = std::move(denials);
  touch_all();
}

void WorkloadClaims::set_telemetry(TelemetrySelectors selectors) {
  if (selectors == telemetry_) return;
  telemetry_ = std::move(selectors);
  touch_all();
}

void WorkloadClaims::touch_all() {
  for (const auto& [claim, claimants] : claims_) touched_.insert(claim);
}

model::WorkloadEntry WorkloadClaims::entry_of(const model::ProxyKey& key,
                                              const Workload& workload) {
  auto selecting = telemetry_.selecting(workload);
  model::WorkloadEntry entry{.proxy = key,
                             .workload = workload,
                             .telemetry = selecting.empty() ? telemetry_.unselective(key.ns)
                                                            : std::optional(selecting.front()),
                             .dns = model::asks_for_dns(workload)};
  if (const auto* denial = denials_->find(workload.proxy_id, identity_of(workload.account))) {
    entry.denied = denial->text();
    entry.denial_origin = {denial->object, "spec"};
  }
  entry.workload.labels.clear();
  entry.workload.claimed_by = {};
  entry.workload.created = {};
  several_.erase(key);
  if (selecting.size() > 1) several_.emplace(key, std::pair(workload.name, std::move(selecting)));
  return entry;
}

void WorkloadClaims::settle(TableEdit<model::WorkloadEntry>& edit) {
  for (const Claim& claim : std::exchange(touched_, {})) {
    const auto& [ns, id] = claim;
    const Claimants* found = namespaces_.contains(ns) ? find_in(claims_, claim) : nullptr;
    const Claimants claimants = found ? *found : Claimants();
    put_or_erase(problems_, claim,
                 claimants.size() > 1 ? std::optional(problem_of(id, claimants)) : std::nullopt);
    for (const WorkloadKind kind : {WorkloadKind::kMachine, WorkloadKind::kPod}) {
      const model::ProxyKey key{ns, id, kind};
      if (const Workload* owner = owner_of(claimants, kind)) {
        edit.put(entry_of(key, *owner));
      } else {
        edit.remove(key);
        several_.erase(key);
      }
    }
  }
}

// The only claimant of its kind of the first provider, so that no provider takes a workload away
// from one before it. Null: there is none.
const Workload* WorkloadClaims::owner_of(const Claimants& claimants, WorkloadKind kind) const {
  const Workload* owner = nullptr;
  std::size_t first = std::numeric_limits<std::size_t>::max();
  for (const auto& claimant : claimants) {
    if (workload_of(claimant).kind != kind || claimant.second > first) continue;
    owner = claimant.second < first ? &workload_of(claimant) : nullptr;
    first = claimant.second;
  }
  return owner;
}

Problem WorkloadClaims::problem_of(const ProxyId& id, const Claimants& claimants) const {
  std::string names, served;
  for (const auto& claimant : claimants)
    names += (names.empty() ? "" : ", ") + describe(workload_of(claimant));
  for (const WorkloadKind kind : {WorkloadKind::kMachine, WorkloadKind::kPod})
    if (const Workload* owner = owner_of(claimants, kind))
      served += (served.empty() ? "" : " and ") + describe(*owner);
  const WorkloadName& first = claimants.begin()->first;
  return {.code = ErrorCode::kDuplicateObject,
          .object = {model::kWorkloadKind, first.ns, first.name},
          .path = {},
          .field = {},
          .cause = "proxy UUID " + id.str() + " is claimed by " + names + "; " +
                   (served.empty() ? "none of them is served" : "only " + served + " is served") +
                   ": give each a UUID of its own"};
}

void WorkloadClaims::add_problems(std::vector<Problem>& out) const {
  for (const auto& [key, problem] : problems_) out.push_back(problem);
  std::map<std::pair<TelemetryName, TelemetryName>, WorkloadName> examples;  // the first by name
  for (const auto& [key, overlap] : several_) {
    const auto& [workload, selecting] = overlap;
    for (std::size_t i = 1; i < selecting.size(); ++i) {
      auto& example =
          examples.try_emplace({selecting.front(), selecting[i]}, workload).first->second;
      example = std::min(example, workload);
    }
  }
  for (const auto& [pair, workload] : examples)
    out.push_back(overlap_problem(pair.first, pair.second, workload));
}

void PortConflicts::update(const model::Changes& changes, const Table<model::WorkloadEntry>& before,
                           const Table<model::WorkloadEntry>& now,
                           const Table<model::ServiceEntry>& services) {
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

void PortConflicts::add_problems(const Table<model::WorkloadEntry>& now,
                                 std::vector<Problem>& out) const {
  std::map<model::PortConflict, WorkloadName> examples;  // the first workload that has it
  for (const auto& [proxy, conflicts] : conflicts_)
    for (const model::PortConflict& conflict : conflicts)
      examples.try_emplace(conflict, now.find(proxy)->workload.name);
  for (const auto& [conflict, example] : examples) out.push_back(port_problem(conflict, example));
}

}  // namespace osm::inline v1::catalog
