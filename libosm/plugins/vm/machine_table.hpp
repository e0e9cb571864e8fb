// The machines and Services of one namespace joined: who is accepted, who selects whom, and what
// follows from a change. Plain data; not thread-safe.
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

  // Null removes; a Service without selector counts as none, since it selects nothing. Nothing is
  // recomputed until update().
  void set_machine(const std::string& name, std::shared_ptr<const VirtualMachine> machine);
  void set_service(const std::string& name, std::shared_ptr<const Service> service);
  // Removes everything, for good: update() then says what is gone.
  void clear();
  bool cleared() const { return cleared_; }

  struct Changes {
    std::vector<ServiceName> services;    // whose endpoints are different
    std::vector<WorkloadName> workloads;  // added, changed or removed
    std::size_t recomputed = 0;           // Services whose endpoints were worked out anew
  };
  // Recomputes what the changes since the last call touch.
  Changes update();

  std::optional<std::vector<Endpoint>> endpoints(const std::string& service) const;
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Without path and line, any order.
  void add_problems(std::vector<Problem>& out) const;

 private:
  using Machine = std::shared_ptr<const VirtualMachine>;
  struct ServiceState {
    std::vector<Endpoint> endpoints;
    std::vector<Problem> problems;
  };

  ProxyId proxy_id(const VirtualMachine& machine) const;
  // Who may keep the UUID it claims; returns the names for which that is different now.
  std::set<std::string> accept();
  ServiceState compute(const Service& service) const;
  Workload workload_of(const VirtualMachine& machine) const;

  // Of the touched Services' and machines' state, what is different.
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
