// A VirtualMachine or a Pod with a sidecar. The UUID in a proxy certificate identifies it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1 {

struct Workload {
  WorkloadName name;
  ProxyId proxy_id;
  ServiceAccount account;
  std::string address;
  std::map<std::string, Port> ports;  // named ports
  std::vector<ServiceName> services;  // services that select it, ordered

  friend bool operator==(const Workload&, const Workload&) = default;
};

}  // namespace osm::inline v1
