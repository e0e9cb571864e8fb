// Joins the machines and Services of one namespace: the machines behind each object, selections,
// and the effects of a change. Plain data; not thread-safe.
//
// An object stands for one workload of its name, or for several. Names do not depend on the number
// of instances, since a proxy's UUID derives from them:
//
// | Instances           | Workloads                                                              |
// |---------------------|------------------------------------------------------------------------|
// | one without a name  | <name>                                                                 |
// | with names          | <name>-<instance> each, and <name> at the first one's address          |
// | of a set that scales | <name>-<instance> each                                                |
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "endpoint/selector_index.hpp"
#include "endpoint/service_states.hpp"
#include "machines/machine.hpp"
#include "osm/detail/api.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::endpoint {

using machines::DecodedMachine;
using machines::Machine;

struct MachineTableOptions {
  GroupKind kind;
  TrustDomain trust_domain;
  // The answer for a resource. Empty for a kind without resources.
  std::function<std::optional<Resolution>(const std::string& id)> find{};
  // True if no Service lists the machine. Empty: all are listed.
  std::function<bool(const WorkloadName& machine, const ProxyId& proxy)> is_drained{};
};

class OSM_API MachineTable {
 public:
  MachineTable(MachineTableOptions options, std::string ns);

  // Sets a machine; a removed machine is an empty value. Nothing is recomputed before update().
  void set_machine(const std::string& name, DecodedMachine machine);
  // Sets or (null) removes. A Service without a selector selects nothing and counts as removed.
  void set_service(const std::string& name, std::shared_ptr<const Service> service);
  // The answers for these ids changed. Result: true if a machine here has one of them.
  bool touch_resources(const std::set<std::string>& ids);
  // The answer of is_drained() for this machine may have changed.
  void touch_machine(const std::string& name);
  // Recomputes everything that the changes since the last call touch.
  TableChanges update();

  const ServiceStates& services() const { return states_; }
  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Ids of resources, with the names of the machines that have them.
  const std::map<std::string, std::set<std::string>>& resources() const { return by_resource_; }
  // Adds problems besides those of services(), without path and line, in any order.
  void add_problems(std::vector<Problem>& out) const;

 private:
  // One machine behind an object.
  struct Member {
    std::string name;  // of the workload
    ProxyId proxy_id;
    std::string address;
    std::map<std::string, Port> ports;
    std::optional<std::string> zone;
    std::optional<std::uint32_t> weight;
    bool healthy = true;
    bool serves = true;  // false: a workload without endpoints of its own

    friend bool operator==(const Member&, const Member&) = default;
  };
  struct Members {
    std::vector<Member> list;
    std::vector<Problem> problems;

    friend bool operator==(const Members&, const Members&) = default;
  };

  ObjectKey key_of(const std::string& machine) const;
  Members members_of(const Machine& machine) const;
  void add_instances(const Machine& machine, const Resolution& resolution, Members& out) const;
  Member named_after(const Machine& machine, std::string name) const;
  bool accept(std::set<std::string>& touched);
  void add_endpoints(const Service& service, const Machine& machine, ServiceState& state) const;
  ServiceState compute(const Service& service) const;
  void add_workloads(const std::string& machine, std::map<std::string, Workload>& out) const;
  void set_workloads(const std::set<std::string>& machines, TableChanges& changes);

  MachineTableOptions options_;
  std::string ns_;
  std::map<std::string, Machine> machines_;
  std::map<std::string, std::vector<Problem>> invalid_;
  std::map<std::string, std::shared_ptr<const Service>> services_;
  std::map<std::string, std::set<std::string>> by_resource_;
  ServiceSelectors selectors_;

  std::map<std::string, Members> members_;  // by machine
  // Machine and workload of members whose UUID another one has.
  std::set<std::pair<std::string, std::string>> refused_;
  std::vector<Problem> conflicts_;
  ServiceStates states_;
  std::map<std::string, Workload> workloads_;
  std::map<std::string, std::set<std::string>> workload_names_;  // by machine

  std::set<std::string> touched_services_;
  std::set<std::string> touched_machines_;
  bool problems_touched_ = false;
};

}  // namespace osm::inline v1::endpoint
