// VirtualMachine (workload.openservicemesh.io/v1alpha1), decoded.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::vm {

inline constexpr const char* kApiVersion = "workload.openservicemesh.io/v1alpha1";

struct VirtualMachine {
  WorkloadName name;
  std::map<std::string, std::string> labels;
  std::string address;  // IPv4
  ServiceAccount account;
  std::optional<ProxyId> proxy_id;  // absent: derived from the name
  std::map<std::string, Port> ports;

  friend bool operator==(const VirtualMachine&, const VirtualMachine&) = default;
};

struct DecodedVirtualMachine {
  std::optional<VirtualMachine> value;  // absent: invalid, left out
  std::vector<Problem> problems;        // without path and line
};

DecodedVirtualMachine decode_virtual_machine(const Object& object);

}  // namespace osm::inline v1::vm
