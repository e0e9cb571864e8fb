// A decoded discovery.k8s.io/v1 EndpointSlice: endpoints of a Service.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"

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

// Every endpoint serves every port.
struct EndpointSlice {
  std::string service;  // empty: the slice belongs to no Service
  std::vector<ListedPort> ports;
  std::vector<ListedEndpoint> endpoints;

  friend bool operator==(const EndpointSlice&, const EndpointSlice&) = default;
};

// Text that is not JSON lists nothing.
EndpointSlice decode_slice(const Object& object);

}  // namespace osm::inline v1::kubernetes
