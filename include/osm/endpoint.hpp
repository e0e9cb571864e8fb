// Where one workload serves one port of a service, and as whom.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "osm/ids.hpp"

namespace osm {

struct Endpoint {
  std::string address;       // IPv4 or IPv6 literal
  Port port{};               // the workload's port
  std::string service_port;  // name of the Service's port this serves; empty: its only port
  // Who answers there. Comes with the endpoint, never inferred from the address.
  ServiceIdentity identity;
  std::optional<std::string> zone;      // default: "local"
  std::optional<std::uint32_t> weight;  // default: equal
  bool healthy = true;                  // false: known, but not to be sent traffic

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  friend std::strong_ordering operator<=>(const Endpoint&, const Endpoint&) = default;
};

}  // namespace osm
