// Joins the machines and Services of one namespace: accepted machines, selections, and the effects
// of a change. Plain data; not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/values/endpoint.hpp"
#include "osm/values/service.hpp"
#include "vm/virtual_machine.hpp"

namespace osm::inline v1::vm {

class MachineTable {
 public:
  MachineTable(TrustDomain trust_domain, std::string ns)
      : trust_domain_(std::move(trust_domain)), ns_(std::move(ns)) {}

  // Sets or (null) removes an object. A Service without a selector selects nothing and counts as
  // removed. Nothing is recomputed before update().
  void set_machine(const std::string& name, std::shared_ptr<const VirtualMachine> machine);
  void set_service(const std::string& name, std::shared_ptr<const Service> service);
  // Removes everything for good; update() then reports the removals.
  void clear();
  bool cleared() const { return cleared_; }

  struct Changes {
    std::vector<ServiceName> services;    // services with changed endpoints
    std::vector<WorkloadName> workloads;  // added, changed or removed
    std::size_t recomputed = 0;           // number of Services whose endpoints were recomputed
  };
  // Recomputes everything that the changes since the last call touch.
  Changes update();

  std::optional<std::vector<Endpoint>> endpoints(const std::string& service) const;
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Adds problems without path and line, in any order.
  void add_problems(std::vector<Problem>& out) const;

 private:
  using Machine = std::shared_ptr<const VirtualMachine>;
  struct ServiceState {
    std::vector<Endpoint> endpoints;
    std::vector<Problem> problems;
  };

  ProxyId proxy_id(const VirtualMachine& machine) const;
  // Decides which machines keep their UUID. Result: the names for which that changed.
  std::set<std::string> accept();
  ServiceState compute(const Service& service) const;
  Workload workload_of(const VirtualMachine& machine) const;

  // Updates touched Services and machines, and records the differences.
  void update_services(const std::set<std::string>& touched, Changes& changes);
  void update_workloads(const std::set<std::string>& touched, Changes& changes);

  TrustDomain trust_domain_;
  std::string ns_;
  std::map<std::string, Machine> machines_;
  std::map<std::string, std::shared_ptr<const Service>> services_;

  std::map<std::string, Machine> accepted_;
  std::vector<Problem> conflicts_;
  std::map<std::string, ServiceState> states_;
  std::map<std::string, Workload> workloads_;

  std::set<std::string> touched_services_;
  std::vector<std::shared_ptr<const Service>> former_services_;
  bool machines_touched_ = false;
  bool cleared_ = false;
};

}  // namespace osm::inline v1::vm
