// Address of one workload for one port of a service, with the workload's identity.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// One serving address and port. Compared and ordered by value.
struct Endpoint {
  std::string address;  // IPv4 or IPv6 literal
  Port port{};          // the workload's own port, whatever the Service's target port is; not 0
  std::string service_port;  // name of the Service's port this serves; empty: its only port
  // Identity of the workload at the address. The provider supplies it; nothing infers it from the
  // address. Its namespace is the service's own; the trust domain is the mesh's.
  ServiceIdentity identity;
  std::optional<std::string> zone;      // default: "local"
  std::optional<std::uint32_t> weight;  // default: equal; 0: listed, but gets no traffic
  bool healthy = true;                  // false: known, but gets no traffic

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend std::strong_ordering operator<=>(const Endpoint&, const Endpoint&) = default;
};

// An endpoint of a service, of the merged answers of all providers.
struct MergedEndpoint {
  Endpoint endpoint;     // its weight times that of the ServiceProvider, if one has it
  std::string provider;  // id of the provider that lists it; of several, the first in precedence

  friend bool operator==(const MergedEndpoint&, const MergedEndpoint&) = default;
};

// Checks that `endpoint` may belong to `service`. The mesh checks every endpoint that a provider
// lists; it leaves out invalid ones and reports a problem. A provider may check first.
// Failure: kInvalidField (the address is no IP literal, the port is 0, the identity is not made of
// DNS names), kCrossNamespace (the identity is of another namespace than the service).
// Thread: any. Blocking: no.
OSM_API Status check_endpoint(const ServiceName& service, const Endpoint& endpoint);

// The canonical name of a service that a platform calls `name` in `ns`: lower case, both parts DNS
// labels (RFC 1123: letters, digits and '-', at most 63 bytes), as in a Service object. So
// "<name>.<ns>.svc.cluster.local" has less than 253 bytes.
// Failure: kInvalidField; such a service cannot be in the mesh. Thread: any. Blocking: no.
OSM_API Result<ServiceName> parse_service_name(std::string ns, std::string name);

}  // namespace osm::inline v1
