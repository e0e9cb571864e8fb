// The endpoints of a Service as objects list them, decoded: discovery.k8s.io/v1 EndpointSlice, or
// v1 Endpoints in clusters that have no slices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kSliceKind = "EndpointSlice";
inline constexpr const char* kEndpointsKind = "Endpoints";

struct ListedEndpoint {
  std::string address;  // IPv4, IPv6, or a name
  // What an object does not say of the first two is true, of the third false.
  bool ready = true;
  bool serving = true;  // ready, or would be if it were not ending
  bool terminating = false;
  std::optional<std::string> zone{};
  // The pod behind it; empty: the object names none, or one of another namespace.
  std::string pod{};
  std::string pod_uid{};

  friend bool operator==(const ListedEndpoint&, const ListedEndpoint&) = default;
};

struct ListedPort {
  std::string name;  // of the Service's port
  Port port{};       // of the workload

  friend bool operator==(const ListedPort&, const ListedPort&) = default;
};

// Every endpoint serves every port.
struct EndpointSubset {
  std::vector<ListedPort> ports;
  std::vector<ListedEndpoint> endpoints;

  friend bool operator==(const EndpointSubset&, const EndpointSubset&) = default;
};

struct EndpointSet {
  std::string service;  // empty: of none
  std::vector<EndpointSubset> subsets;

  friend bool operator==(const EndpointSet&, const EndpointSet&) = default;
};

// Of either kind. Text that is no JSON lists nothing.
EndpointSet decode_endpoint_set(const Object& object);

}  // namespace osm::inline v1::kubernetes
