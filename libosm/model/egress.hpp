// Access of one identity to destinations outside of the mesh.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/origin.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/traffic_policy.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::model {

// One Egress, resolved: without hosts and addresses that belong to the mesh. A list without a value
// means any, an empty one nobody.
struct EgressGrant {
  Origin origin;  // the Egress; not in force with global egress, which opens everything
  std::vector<EgressPort> ports;
  std::optional<std::vector<EgressHost>> hosts;
  std::optional<std::vector<Ipv4Network>> networks;
  std::optional<std::vector<RoutePolicy>> routes;  // of requests
  std::string setting{};                           // its UpstreamTrafficSetting: "ns/name"
  Origin setting_origin{};                         // in force as the Egress is
  ConnectionSettings connections{};                // of the setting

  friend bool operator==(const EgressGrant&, const EgressGrant&) = default;
};

std::string text_of(const Ipv4Network& network);  // "192.0.2.0/24"
// True if every address of `inner` is in `outer`.
bool holds(const Ipv4Network& outer, const Ipv4Network& inner);

inline bool is_wildcard(const EgressHost& host) { return host.name.starts_with("*."); }
// True if every name that `inner` stands for is one of `outer`: "*.b.c" holds "a.b.c" and
// "*.a.b.c".
bool holds(std::string_view outer, std::string_view inner);

}  // namespace osm::inline v1::model
