// The pods of one namespace: pods whose proxies are served, and the Services that select them.
// Plain data; not thread-safe.
//
// Anybody who may create a pod may label it with another pod's UUID. So a UUID belongs to the pod
// that mounts its Secret; if several do, to the oldest.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "endpoint/selector_index.hpp"
#include "kubernetes/source/pod.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::kubernetes {

class PodTable {
 public:
  explicit PodTable(std::string ns) : ns_(std::move(ns)) {}

  // Sets a pod; a removed pod is an empty value. Nothing is recomputed before update().
  void set_pod(const std::string& name, DecodedPod pod);
  // Null removes.
  void set_service(const std::string& name, const Service* service);

  struct Changes {
    std::set<std::string> pods;           // served before or now, and different
    std::set<std::string> addresses;      // former and present addresses of those
    std::vector<WorkloadName> workloads;  // added, changed or removed
    bool problems = false;                // add_problems() would add others than before
  };
  // Recomputes everything that the changes since the last call touch.
  Changes update();

  // The pod of that name, if its proxy is served; else null.
  const Pod* find(const std::string& name) const;
  // The pods at an address; several if pods share their node's network.
  std::vector<const Pod*> at(const std::string& address) const;

  const std::map<std::string, Workload>& workloads() const { return workloads_; }
  // Adds problems without path and line, in any order.
  void add_problems(std::vector<Problem>& out) const;

 private:
  using PodPtr = std::shared_ptr<const Pod>;

  // Elects the owner of a UUID among the pods that claim it. Result: the problem of a claim that
  // lost.
  std::optional<Problem> elect(const ProxyId& id);
  void retire(const ProxyId& id, Changes& changes);
  Workload workload_of(const Pod& pod) const;
  void update_workloads(const std::set<std::string>& touched, Changes& changes);

  std::string ns_;
  std::map<std::string, PodPtr> pods_;
  std::map<std::string, Problem> invalid_;
  std::map<ProxyId, std::set<std::string>> claims_;

  std::map<ProxyId, std::string> owners_;
  std::map<std::string, PodPtr> served_;
  std::map<std::string, std::set<std::string>> by_address_;
  std::map<ProxyId, Problem> conflicts_;
  std::map<std::string, Workload> workloads_;

  endpoint::ServiceSelectors services_;

  std::set<ProxyId> touched_ids_;
  bool problems_touched_ = false;
};

}  // namespace osm::inline v1::kubernetes
