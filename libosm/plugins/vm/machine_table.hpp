// Joins the machines and Services of one namespace: accepted machines, selections, and the effects
// of a change. Plain data; not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "endpoint/selector_index.hpp"
#include "endpoint/service_states.hpp"
#include "osm/values/service.hpp"
#include "vm/virtual_machine.hpp"

namespace osm::inline v1::vm {

class MachineTable {
 public:
  MachineTable(TrustDomain trust_domain, std::string ns)
      : trust_domain_(std::move(trust_domain)), ns_(ns), states_(std::move(ns)) {}

  // Sets a machine; a removed machine is an empty value. Nothing is recomputed before update().
  void set_machine(const std::string& name, DecodedVirtualMachine machine);
  // Sets or (null) removes. A Service without a selector selects nothing and counts as removed.
  void set_service(const std::string& name, std::shared_ptr<const Service> service);

  // Recomputes everything that the changes since the last call touch.
  endpoint::TableChanges update();

  const endpoint::ServiceStates& services() const { return states_; }
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Adds problems besides those of services(), without path and line, in any order.
  void add_problems(std::vector<Problem>& out) const;

 private:
  ProxyId proxy_id(const VirtualMachine& machine) const;
  // Decides which machines keep their UUID, and adds those for which that changed to `touched`.
  // Result: true if the conflicts are others than before.
  bool accept(std::set<std::string>& touched);
  endpoint::ServiceState compute(const Service& service) const;
  Workload workload_of(const VirtualMachine& machine) const;

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

}  // namespace osm::inline v1::vm
