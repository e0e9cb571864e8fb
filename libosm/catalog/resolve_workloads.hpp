// Indexes the workloads of all providers by proxy key. Plain data; not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/address_owners.hpp"
#include "catalog/resolve_telemetry.hpp"
#include "catalog/table_edit.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/own_ports.hpp"
#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::catalog {

// Claims of each proxy UUID. If several workloads of one kind and namespace claim one, none gets
// it: otherwise a copy of a UUID could take the other's place. A machine and a pod with one UUID
// both keep it, since a certificate is valid for one kind only; they are reported. The cost of a
// change is proportional to the touched claims.
class WorkloadClaims {
 public:
  // `addresses` is told of each workload, and outlives the claims.
  WorkloadClaims(std::size_t providers, AddressOwners& addresses)
      : addresses_(addresses), listed_(providers) {}

  // Replaces a provider's list (by its place): all workloads, or one (nullopt: none).
  void replace(std::size_t provider, std::vector<Workload> workloads);
  void set(std::size_t provider, const WorkloadName& name, std::optional<Workload> workload);
  // Sets the namespaces whose claims count / the proxies and accounts that are denied.
  void set_monitored_namespaces(const std::set<std::string>& namespaces);
  void set_denials(std::shared_ptr<const Denials> denials);
  // Sets the Telemetries that select workloads by their labels.
  void set_telemetry(TelemetrySelectors selectors);

  // Resolves the claims that were touched since the last call.
  void settle(TableEdit<model::WorkloadEntry>& edit);
  void add_problems(std::vector<Problem>& out) const;

 private:
  using Claimants = std::set<std::pair<WorkloadName, std::size_t>>;
  using Claim = std::pair<std::string, ProxyId>;  // namespace and UUID

  const Workload& workload_of(const Claimants::value_type& claimant) const {
    return listed_[claimant.second].at(claimant.first);
  }
  const Workload* owner_of(const Claimants& claimants, WorkloadKind kind) const;
  Problem problem_of(const ProxyId& id, const Claimants& claimants) const;
  void touch_all();
  model::WorkloadEntry entry_of(const model::ProxyKey& key, const Workload& workload);

  AddressOwners& addresses_;
  std::vector<std::map<WorkloadName, Workload>> listed_;  // by provider
  std::map<Claim, Claimants> claims_;
  std::map<Claim, Problem> problems_;
  std::set<std::string> namespaces_;
  std::shared_ptr<const Denials> denials_ = std::make_shared<const Denials>();
  TelemetrySelectors telemetry_;
  // Workloads that several Telemetries select; the first counts.
  std::map<model::ProxyKey, std::pair<WorkloadName, std::vector<TelemetryName>>> several_;
  std::set<Claim> touched_;
};

// Ports of a workload's services that cannot share a target port.
class PortConflicts {
 public:
  // Updates the conflicts after `changes` from `before` to `now`.
  void update(const model::Changes& changes, const Table<model::WorkloadEntry>& before,
              const Table<model::WorkloadEntry>& now, const Table<model::ServiceEntry>& services);
  // Adds one problem per conflict, for any number of workloads.
  void add_problems(const Table<model::WorkloadEntry>& now, std::vector<Problem>& out) const;

 private:
  std::map<ServiceName, std::set<model::ProxyKey>> of_service_;  // the workloads that name it
  std::map<model::ProxyKey, std::vector<model::PortConflict>> conflicts_;
};

}  // namespace osm::inline v1::catalog
