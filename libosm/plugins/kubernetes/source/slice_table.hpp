// The endpoints of one namespace's Services, computed from EndpointSlices and pods. Plain data.
// Thread: one at a time.
//
// A slice can be written by people, a pod's addresses only by its node. So an endpoint counts for
// the pod that the slice names if that pod has the address; an endpoint without a pod name counts
// for the pods that have the address, if these share one ServiceAccount.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "endpoint/store_provider.hpp"
#include "kubernetes/source/endpoint_slice.hpp"
#include "kubernetes/source/pod_table.hpp"

namespace osm::inline v1::kubernetes {

class SliceTable {
 public:
  explicit SliceTable(std::string ns) : ns_(std::move(ns)) {}

  // Null removes. Nothing is recomputed until update().
  void set_service(const std::string& name, std::shared_ptr<const Service> service);
  // Sets a slice; nullopt: removed.
  void set_slice(const std::string& name, std::optional<EndpointSlice> slice);

  // Recomputes everything that the changes since the last call, and these changes of pods, touch.
  endpoint::TableChanges update(const PodTable& pods, const PodTable::Changes& changed);

  // The Service's endpoints; nullopt: no such Service.
  std::optional<std::vector<Endpoint>> endpoints(const std::string& service) const;
  std::vector<ServiceName> services() const;
  void add_problems(std::vector<Problem>& out) const;

 private:
  struct State {
    std::vector<Endpoint> endpoints;
    std::vector<Problem> problems;
    std::set<std::string> asked;  // names of pods, and addresses, that they depend on
  };

  State compute(const Service& service, const PodTable& pods) const;
  void replace(const std::string& name, State next);
  void forget(const std::string& name);

  std::string ns_;
  std::map<std::string, std::shared_ptr<const Service>> services_;
  std::map<std::string, std::string> service_of_;                          // by the name of a slice
  std::map<std::string, std::map<std::string, EndpointSlice>> slices_of_;  // by Service
  std::map<std::string, State> states_;
  std::map<std::string, std::set<std::string>> dependents_;  // pod or address → Services
  std::set<std::string> touched_;
};

}  // namespace osm::inline v1::kubernetes
