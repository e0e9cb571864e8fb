// The traffic interception of a machine, as a shell script. A pure function: options in, text out.
//
// The script owns its chains and nothing else. Applying it twice is applying it once; `--remove`
// leaves the tables as they were. Only TCP over IPv4 is redirected; over IPv6 what the mesh would
// guard is rejected, so that no second address family bypasses it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::inject {

// The proxy's user and the ports it listens on.
inline constexpr std::uint32_t kProxyUid = 1500;
inline constexpr Port kAdminPort{15000};       // loopback only
inline constexpr Port kOutboundPort{15001};    // redirected outbound TCP
inline constexpr Port kInboundPort{15003};     // redirected inbound TCP
inline constexpr Port kPrometheusPort{15010};  // scrape
inline constexpr Port kFirstProbePort{15901};  // health probes...
inline constexpr Port kLastProbePort{15904};   // ...to here

// What of a machine's traffic goes through its proxy.
struct InterceptionOptions {
  std::uint32_t proxy_uid = kProxyUid;           // whose own traffic is left alone; never root
  std::vector<Port> inbound_excluded{Port{22}};  // reach the machine directly
  std::vector<Port> outbound_excluded{};         // leave the machine directly
  // IPv4 networks ("10.0.0.0/8", or an address). Exclusion beats inclusion.
  std::vector<std::string> outbound_excluded_networks{};
  std::vector<std::string> outbound_included_networks{};  // empty: all
  std::vector<std::string> excluded_interfaces{};         // "eth1": what comes and goes there
  // IPv6 networks of the mesh: connections to them are rejected, but for the above and the proxy's.
  std::vector<std::string> mesh_networks_v6{};
  // The control plane's IPv4 address and port, should it be on this machine; empty: elsewhere.
  std::pair<std::string, Port> controller{};
};

// `#!/bin/sh` text, to be run as root: `intercept.sh` applies, `intercept.sh --remove` undoes.
// Failure: kInvalidArgument naming the option and its value.
OSM_API Result<std::string> interception_script(const InterceptionOptions& options);

}  // namespace osm::inline v1::inject
