// Traffic interception of a machine, as a shell script. A pure function: options in, text out.
//
// The script changes only its own chains. Applying it twice has the effect of applying it once;
// `--remove` restores the tables. It redirects only TCP over IPv4, and questions for names
// if the machine asks for it. Over IPv6 it rejects traffic that the mesh would guard, so that no
// second address family bypasses the mesh.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::inject {

// The proxy's user and the ports it listens on.
inline constexpr std::uint32_t kProxyUid = 1500;
inline constexpr Port kAdminPort{15000};       // loopback only
inline constexpr Port kOutboundPort{15001};    // redirected outbound TCP
inline constexpr Port kInboundPort{15003};     // redirected inbound TCP
inline constexpr Port kDnsPort{15053};         // DNS over UDP of a machine, loopback only
inline constexpr Port kPrometheusPort{15010};  // scrape
inline constexpr Port kFirstProbePort{15901};  // health probes and hooks,
inline constexpr Port kLastProbePort{15904};   // up to this port

// Traffic of a machine that goes through its proxy.
struct InterceptionOptions {
  std::uint32_t proxy_uid = kProxyUid;           // its own traffic is not redirected; never root
  std::vector<Port> inbound_excluded{Port{22}};  // reach the machine directly
  std::vector<Port> outbound_excluded{};         // leave the machine directly
  // IPv4 networks ("10.0.0.0/8", or an address). Exclusion takes precedence over inclusion.
  std::vector<std::string> inbound_excluded_networks{};  // their hosts reach the machine directly
  std::vector<std::string> outbound_excluded_networks{};
  std::vector<std::string> outbound_included_networks{};  // empty: all
  std::vector<std::string> excluded_interfaces{};         // "eth1": all its traffic
  // IPv6 networks of the mesh: the script rejects connections to them, except for the exclusions
  // above and the proxy's own.
  std::vector<std::string> mesh_networks_v6{};
  // Questions by TCP always go past the proxy, to the machine's IPv4 name servers. Questions by UDP
  // to the machine's IPv4 name servers go to the proxy. The script reads them from /etc/resolv.conf
  // when it runs; if some are on loopback, only those.
  bool dns = false;
  // The control plane's IPv4 address and port if it runs on this machine; empty: it does not.
  std::pair<std::string, Port> controller{};
};

// The options of a machine: 22/tcp is excluded, beside what MeshConfig excludes for the whole mesh
// and what annotations of the VirtualMachine exclude, which are those of pods
// (openservicemesh.io/outbound-port-exclusion-list and others). openservicemesh.io/dns: enabled
// sets `dns`.
// Failure: kInvalidField, kTooLarge, naming the object, the annotation and the remedy.
// Thread: any. Blocking: no.
OSM_API Result<InterceptionOptions> machine_interception(const TrafficExclusions& mesh,
                                                         const Object& machine);

// `#!/bin/sh` text, to be run as root: `intercept.sh` applies it, `intercept.sh --remove` undoes
// it.
// Failure: kInvalidArgument naming the option and its value.
OSM_API Result<std::string> interception_script(const InterceptionOptions& options);

}  // namespace osm::inline v1::inject
