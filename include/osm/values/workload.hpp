// A VirtualMachine or a Pod with a sidecar. The UUID in a proxy certificate identifies it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1 {

// Kind of a workload. Its proxy certificate proves it, so a certificate of one kind is never valid
// for a workload of the other, even with the same UUID.
enum class WorkloadKind {
  kMachine,  // certified by ControlPlane::issue_proxy_certificate(): machines, other platforms
  kPod,      // certified by sidecar injection
};

struct Workload {
  WorkloadName name;
  ProxyId proxy_id;
  ServiceAccount account;
  std::string address;
  std::map<std::string, Port> ports;  // named ports
  std::vector<ServiceName> services;  // services that select it, ordered
  WorkloadKind kind = WorkloadKind::kMachine;
  // For selectors of Telemetries. Services select by the provider.
  std::map<std::string, std::string> labels = {};
  // The object whose author chose `address`, such as a VirtualMachine, and its age. Such a claim
  // can lose against others (docs/mesh-objects.md). No kind: the platform assigned the address.
  ObjectKey claimed_by = {};
  Created created = {};

  friend bool operator==(const Workload&, const Workload&) = default;
};

}  // namespace osm::inline v1
