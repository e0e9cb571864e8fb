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

#include "endpoint/service_states.hpp"
#include "kubernetes/source/pod_table.hpp"
#include "osm/object.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::kubernetes {

struct ListedEndpoint {
  std::string address;  // IPv4, IPv6, or a name
  // Absent conditions count as true, true and false.
  bool ready = true;
  bool serving = true;  // ready, or would be if it were not terminating
  bool terminating = false;
  std::optional<std::string> zone{};
  // Name of its pod; empty: the slice names none, or one of another namespace.
  std::string pod{};
  std::string pod_uid{};

  friend bool operator==(const ListedEndpoint&, const ListedEndpoint&) = default;
};

struct ListedPort {
  std::string name;  // name of the Service's port
  Port port{};       // port of the workload

  friend bool operator==(const ListedPort&, const ListedPort&) = default;
};

// A discovery.k8s.io/v1 EndpointSlice, decoded: every endpoint serves every port.
struct EndpointSlice {
  std::string service;  // empty: the slice belongs to no Service
  std::vector<ListedPort> ports;
  std::vector<ListedEndpoint> endpoints;

  friend bool operator==(const EndpointSlice&, const EndpointSlice&) = default;
};

// Text that is not JSON lists nothing.
EndpointSlice decode_slice(const Object& object);

class SliceTable {
 public:
  explicit SliceTable(std::string ns) : states_(std::move(ns)) {}

  // Null removes. Nothing is recomputed until update().
  void set_service(const std::string& name, std::shared_ptr<const Service> service);
  // Sets a slice; nullopt: removed.
  void set_slice(const std::string& name, std::optional<EndpointSlice> slice);

  // Recomputes everything that the changes since the last call, and these changes of pods, touch.
  endpoint::TableChanges update(const PodTable& pods, const PodTable::Changes& changed);

  const endpoint::ServiceStates& services() const { return states_; }

 private:
  // Recomputes the Service, and notes the pods and addresses that it depends on.
  endpoint::ServiceState compute(const Service& service, const PodTable& pods);
  void forget_dependencies(const std::string& service);

  std::map<std::string, std::shared_ptr<const Service>> services_;
  std::map<std::string, std::string> service_of_;                          // by the name of a slice
  std::map<std::string, std::map<std::string, EndpointSlice>> slices_of_;  // by Service
  endpoint::ServiceStates states_;
  // Names of pods, and addresses, by the Service that depends on them, and the reverse.
  std::map<std::string, std::set<std::string>> dependencies_;
  std::map<std::string, std::set<std::string>> dependents_;
  std::set<std::string> touched_;
};

}  // namespace osm::inline v1::kubernetes
