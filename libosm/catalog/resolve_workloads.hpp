// Workloads of all providers → by what a proxy certificate proves. Plain data; not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/table_edit.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/own_ports.hpp"
#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::catalog {

// Who claims each proxy UUID. One that several of a namespace claim is nobody's: choosing one would
// let whoever copies a UUID take the other's place. A change costs what it touches.
class WorkloadClaims {
 public:
  explicit WorkloadClaims(std::size_t providers) : listed_(providers) {}

  // What a provider, by its place, lists now: everything, or one workload (nullopt: none).
  void replace(std::size_t provider, std::vector<Workload> workloads);
  void set(std::size_t provider, const WorkloadName& name, std::optional<Workload> workload);
  // Claims of other namespaces are nobody's.
  void set_monitored_namespaces(const std::set<std::string>& namespaces);

  // Settles what was touched since the last call.
  void settle(TableEdit<model::WorkloadEntry>& edit);
  void add_problems(std::vector<Problem>& out) const;

 private:
  using Claimants = std::set<std::pair<WorkloadName, std::size_t>>;

  Problem problem_of(const model::ProxyKey& proxy, const Claimants& claimants) const;

  std::vector<std::map<WorkloadName, Workload>> listed_;  // by provider
  std::map<model::ProxyKey, Claimants> claims_;
  std::map<model::ProxyKey, Problem> problems_;
  std::set<std::string> namespaces_;
  std::set<model::ProxyKey> touched_;
};

// Which ports of its services each workload has that cannot share a target port.
class PortConflicts {
 public:
  // After `changes` from `before` to `now`.
  void update(const model::Changes& changes, const model::Table<model::WorkloadEntry>& before,
              const model::Table<model::WorkloadEntry>& now,
              const model::Table<model::ServiceEntry>& services);
  // One for each conflict, however many workloads have it.
  void add_problems(const model::Table<model::WorkloadEntry>& now, std::vector<Problem>& out) const;

 private:
  std::map<ServiceName, std::set<model::ProxyKey>> of_service_;  // the workloads that name it
  std::map<model::ProxyKey, std::vector<model::PortConflict>> conflicts_;
};

}  // namespace osm::inline v1::catalog
