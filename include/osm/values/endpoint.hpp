// Where one workload serves one port of a service, and as whom.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// One address and port that serves, compared and ordered by value.
struct Endpoint {
  std::string address;       // IPv4 or IPv6 literal
  Port port{};               // the workload's port; not 0
  std::string service_port;  // name of the Service's port this serves; empty: its only port
  // Who answers there. Comes with the endpoint, never inferred from the address. Of the service's
  // own namespace; the trust domain is the mesh's.
  ServiceIdentity identity;
  std::optional<std::string> zone;      // default: "local"
  std::optional<std::uint32_t> weight;  // default: equal; 0: listed, but sent no traffic
  bool healthy = true;                  // false: known, but not to be sent traffic

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend std::strong_ordering operator<=>(const Endpoint&, const Endpoint&) = default;
};

// Whether `endpoint` may stand behind `service`. The mesh asks this of every endpoint that a
// provider lists and leaves out, with a problem, those that may not; a provider may ask it first.
// Failure: kInvalidField (an address that is no literal, a port of 0, an identity that is not
// written as DNS names), kCrossNamespace (the identity is of another namespace than the service).
// Thread: any. Blocking: no.
OSM_API Status check_endpoint(const ServiceName& service, const Endpoint& endpoint);

// The canonical name of a service that a platform calls `name` in `ns`: in lower case, each a DNS
// label (RFC 1123: letters, digits and '-', at most 63 bytes), as a Service object's are. What
// follows in the mesh, "<name>.<ns>.svc.cluster.local", is thereby below 253 bytes.
// Failure: kInvalidField; such a service cannot be in the mesh. Thread: any. Blocking: no.
OSM_API Result<ServiceName> parse_service_name(std::string ns, std::string name);

}  // namespace osm::inline v1
