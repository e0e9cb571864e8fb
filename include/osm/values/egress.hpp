// Calls to destinations outside of the mesh: an Egress, policy.openservicemesh.io/v1alpha1.
// docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// Sidecars read the traffic to a port as this. kTcp and kTcpServerFirst differ only in that no
// sidecar waits for the client's first bytes on a port of kTcpServerFirst.
enum class EgressProtocol { kHttp, kHttps, kTcp, kTcpServerFirst };

// A port that an Egress opens.
struct EgressPort {
  Port number{};
  EgressProtocol protocol{};

  friend bool operator==(const EgressPort&, const EgressPort&) = default;
};

// A host name, or all names below one.
struct EgressHost {
  std::string name;          // lower case: "example.com", "*.example.com", "192.0.2.1"
  std::optional<Port> port;  // absent: on all ports of the Egress

  friend bool operator==(const EgressHost&, const EgressHost&) = default;
};

// All IPv4 addresses with one prefix.
struct Ipv4Network {
  std::uint32_t address = 0;  // in host byte order; bits beyond `length` are 0
  std::uint8_t length = 0;    // of the prefix; 0 to 32

  friend bool operator==(const Ipv4Network&, const Ipv4Network&) = default;
  friend auto operator<=>(const Ipv4Network&, const Ipv4Network&) = default;
};

// One Egress, without its invalid elements. A list of which every element is invalid is empty and
// grants nothing; a list that was not written is absent and means any.
struct Egress {
  std::vector<ServiceIdentity> sources;  // in the object's own namespace
  std::optional<std::vector<EgressHost>> hosts;
  // Ordered, unique. Absent also if one of them is 0.0.0.0/0.
  std::optional<std::vector<Ipv4Network>> networks;
  std::vector<EgressPort> ports;
  // HTTPRouteGroups of the object's own namespace: a request must match one of their matches.
  std::optional<std::vector<std::string>> route_groups;
  std::string setting;  // UpstreamTrafficSetting of the object's own namespace; empty: none

  friend bool operator==(const Egress&, const Egress&) = default;
};

}  // namespace osm::inline v1
