#include "inject/interception.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/numbers.hpp"
#include "inject/dns_redirect.hpp"
#include "inject/refusal.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::inject {
namespace {

constexpr std::size_t kPortsPerRule = 15;     // limit of iptables' multiport match
constexpr std::size_t kInterfaceLength = 15;  // limit of the kernel's IFNAMSIZ

enum class Family { kIpv4, kIpv6 };

// The fault of a network; empty: none.
std::string network_fault(const std::string& text, Family family) {
  const auto slash = text.find('/');
  const std::string address = text.substr(0, slash);
  const bool v4 = family == Family::kIpv4;
  if (!(v4 ? model::is_ipv4(address) : model::is_ipv6(address)))
    return v4 ? "is not an IPv4 network, like 10.0.0.0/8" : "is not an IPv6 network, like fd00::/8";
  const unsigned longest = v4 ? 32 : 128;
  if (slash == std::string::npos) return {};
  const auto length = number_of<unsigned>(text.substr(slash + 1));
  if (length && *length <= longest) return {};
  return fmt::format("needs a prefix length from 0 to {}", longest);
}

Status check_networks(std::string_view option, const std::vector<std::string>& networks,
                      Family family) {
  for (const std::string& network : networks)
    if (const std::string fault = network_fault(network, family); !fault.empty())
      return invalid(option, fmt::format("'{}' {}", network, fault));
  return {};
}

Status check_ports(std::string_view option, const std::vector<Port>& ports) {
  if (std::find(ports.begin(), ports.end(), Port{0}) == ports.end()) return {};
  return invalid(option, "0 is not a port: use 1 to 65535");
}

// Accepts names that iptables takes for an interface and that have no meaning to a shell.
Status check_interfaces(const std::vector<std::string>& interfaces) {
  for (const std::string& name : interfaces) {
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == ':' || c == '-';
    });
    if (!name.empty() && name.size() <= kInterfaceLength && plain && name.front() != '-') continue;
    return invalid("network interface exclusion",
                   fmt::format("'{}' is no interface, like eth1", name));
  }
  return {};
}

}  // namespace

Status check_interception(const InterceptionOptions& options) {
  if (options.proxy_uid == 0)
    return invalid("proxy uid",
                   "0 would leave all of root's traffic outside the mesh: give the proxy a user of "
                   "its own");
  OSM_TRY(check_interfaces(options.excluded_interfaces));
  OSM_TRY(check_ports("inbound port exclusion", options.inbound_excluded));
  OSM_TRY(check_ports("outbound port exclusion", options.outbound_excluded));
  OSM_TRY(check_networks("inbound network exclusion", options.inbound_excluded_networks,
                         Family::kIpv4));
  OSM_TRY(check_networks("outbound network exclusion", options.outbound_excluded_networks,
                         Family::kIpv4));
  OSM_TRY(check_networks("outbound network inclusion", options.outbound_included_networks,
                         Family::kIpv4));
  OSM_TRY(check_networks("IPv6 network of the mesh", options.mesh_networks_v6, Family::kIpv6));
  if (options.controller.first.empty()) return {};
  return check_networks("controller", {options.controller.first}, Family::kIpv4);
}

namespace {

// Rules "-A <chain> -p tcp -m multiport --dports a,b,... -j RETURN", as many as the ports need.
std::string return_ports(std::string_view chain, const std::vector<Port>& ports) {
  const std::set<Port> unique(ports.begin(), ports.end());
  std::string rules;
  for (auto at = unique.begin(); at != unique.end();) {
    std::string list;
    for (std::size_t i = 0; i < kPortsPerRule && at != unique.end(); ++i, ++at)
      list += fmt::format("{}{}", i == 0 ? "" : ",", number(*at));
    rules += fmt::format("-A {} -p tcp -m multiport --dports {} -j RETURN\n", chain, list);
  }
  return rules;
}

// A rule for each value: "-A <chain> <match> <value> <rest>".
std::string each(std::string_view chain, std::string_view match,
                 const std::vector<std::string>& values, std::string_view rest) {
  std::string rules;
  for (const std::string& value : std::set<std::string>(values.begin(), values.end()))
    rules += fmt::format("-A {} {} {} {}\n", chain, match, value, rest);
  return rules;
}

// `direction` is -i or -o.
std::string return_interfaces(std::string_view chain, std::string_view direction,
                              const InterceptionOptions& options) {
  return each(chain, direction, options.excluded_interfaces, "-j RETURN");
}

// Ports that reach the machine without the proxy: excluded ones, and the proxy's own public ports.
std::vector<Port> spared_inbound(const InterceptionOptions& options) {
  std::vector<Port> ports = options.inbound_excluded;
  ports.push_back(kPrometheusPort);
  for (auto port = number(kFirstProbePort); port <= number(kLastProbePort); ++port)
    ports.push_back(Port{port});
  return ports;
}

// Connections that reach the machine without the proxy.
std::string spared_inbound_rules(const InterceptionOptions& options) {
  constexpr std::string_view kChain = "OSM_PROXY_INBOUND";
  return return_interfaces(kChain, "-i", options) +
         each(kChain, "-s", options.inbound_excluded_networks, "-p tcp -j RETURN") +
         return_ports(kChain, spared_inbound(options));
}

std::string outbound_rules(const InterceptionOptions& options, std::string_view workload_address) {
  constexpr std::string_view kChain = "OSM_PROXY_OUTBOUND";
  std::string rules;
  if (!workload_address.empty()) {
    // The proxy's admin port listens on loopback only.
    rules += fmt::format(
        "-A {} -o lo -d 127.0.0.1/32 -p tcp ! --dport {} -m owner --uid-owner {} -j DNAT "
        "--to-destination {}\n",
        kChain, number(kAdminPort), options.proxy_uid, workload_address);
  }
  const auto& [controller, port] = options.controller;
  if (!controller.empty())
    rules += fmt::format("-A {} -d {}/32 -p tcp --dport {} -m owner --uid-owner {} -j RETURN\n",
                         kChain, controller, number(port), options.proxy_uid);
  // A proxy that dials an address of its own machine is an inbound client like any other.
  rules += fmt::format(
      "-A {0} -o lo ! -d 127.0.0.0/8 -p tcp -m owner --uid-owner {1} -j OSM_PROXY_IN_REDIRECT\n"
      "-A {0} -o lo -j RETURN\n"
      "-A {0} -m owner --uid-owner {1} -j RETURN\n",
      kChain, options.proxy_uid);
  rules += "$(spare_name_servers)\n";
  rules += return_interfaces(kChain, "-o", options);
  rules += each(kChain, "-d", options.outbound_excluded_networks, "-p tcp -j RETURN");
  rules += return_ports(kChain, options.outbound_excluded);
  if (options.outbound_included_networks.empty())
    return rules + fmt::format("-A {} -p tcp -j OSM_PROXY_OUT_REDIRECT\n", kChain);
  return rules +
         each(kChain, "-d", options.outbound_included_networks, "-p tcp -j OSM_PROXY_OUT_REDIRECT");
}

std::string tables_v4(const InterceptionOptions& options, const Jump& jump,
                      std::string_view workload_address) {
  return fmt::format(R"sh(*nat
:OSM_PROXY_INBOUND - [0:0]
:OSM_PROXY_IN_REDIRECT - [0:0]
:OSM_PROXY_OUTBOUND - [0:0]
:OSM_PROXY_OUT_REDIRECT - [0:0]
-A OSM_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports {0}
-A OSM_PROXY_OUT_REDIRECT -p tcp -j REDIRECT --to-ports {1}
{2}-A OSM_PROXY_INBOUND -p tcp -j OSM_PROXY_IN_REDIRECT
{3}{4}
{5}
COMMIT
*filter
:OSM_PROXY_DIRECT - [0:0]
-A OSM_PROXY_DIRECT -p tcp -m multiport --dports {1},{0} -m conntrack ! --ctstate DNAT -j REJECT --reject-with tcp-reset
{6}
COMMIT
)sh",
                     number(kInboundPort), number(kOutboundPort), spared_inbound_rules(options),
                     outbound_rules(options, workload_address), jump("iptables", kJumpsV4[0]),
                     jump("iptables", kJumpsV4[1]), jump("iptables", kJumpsV4[2]));
}

// Rules for IPv6 connections to the mesh. The proxy's own are exempt, as over IPv4.
std::string outbound_rules_v6(const InterceptionOptions& options) {
  constexpr std::string_view kChain = "OSM_PROXY_OUTBOUND";
  if (options.mesh_networks_v6.empty()) return {};
  return fmt::format("-A {} -m owner --uid-owner {} -j RETURN\n", kChain, options.proxy_uid) +
         return_interfaces(kChain, "-o", options) +
         return_ports(kChain, options.outbound_excluded) +
         each(kChain, "-d", options.mesh_networks_v6, "-p tcp -j REJECT --reject-with tcp-reset");
}

std::string tables_v6(const InterceptionOptions& options, const Jump& jump) {
  return fmt::format(R"sh(*filter
:OSM_PROXY_INBOUND - [0:0]
:OSM_PROXY_OUTBOUND - [0:0]
-A OSM_PROXY_INBOUND -i lo -j RETURN
{}{}-A OSM_PROXY_INBOUND -p tcp --syn -j REJECT --reject-with tcp-reset
-A OSM_PROXY_OUTBOUND -o lo -j RETURN
{}{}
{}
COMMIT
)sh",
                     return_interfaces("OSM_PROXY_INBOUND", "-i", options),
                     return_ports("OSM_PROXY_INBOUND", spared_inbound(options)),
                     outbound_rules_v6(options), jump("ip6tables", kJumpsV6[0]),
                     jump("ip6tables", kJumpsV6[1]));
}

constexpr std::string_view kHead = R"sh(#!/bin/sh
# Traffic interception of this machine, written by `osm vm bootstrap`. Run it as root:
#   intercept.sh            every TCP connection goes through the proxy; may be repeated
#   intercept.sh --remove   undoes it
set -eu

fail() {
  echo "intercept.sh: $*" >&2
  exit 1
}

# The line that sends a built-in chain's TCP to one of ours, unless it is there already.
jump() { # COMMAND TABLE BUILT-IN OURS
  "$1" -w -t "$2" -C "$3" -p tcp -j "$4" 2>/dev/null || echo "-I $3 1 -p tcp -j $4"
}

drop() { # COMMAND TABLE BUILT-IN OURS
  while "$1" -w -t "$2" -D "$3" -p tcp -j "$4" 2>/dev/null; do :; done
}

forget() { # COMMAND TABLE CHAIN...
  command=$1 table=$2
  shift 2
  for chain in "$@"; do "$command" -w -t "$table" -F "$chain" 2>/dev/null || :; done
  for chain in "$@"; do "$command" -w -t "$table" -X "$chain" 2>/dev/null || :; done
}

# Whether this kernel and this machine can filter IPv6.
ipv6_works() { command -v ip6tables >/dev/null && ip6tables -w -t filter -S >/dev/null 2>&1; }

remove() {
  remove_dns
  drop iptables nat PREROUTING OSM_PROXY_INBOUND
  drop iptables nat OUTPUT OSM_PROXY_OUTBOUND
  drop iptables filter INPUT OSM_PROXY_DIRECT
  forget iptables nat OSM_PROXY_INBOUND OSM_PROXY_OUTBOUND OSM_PROXY_IN_REDIRECT OSM_PROXY_OUT_REDIRECT
  forget iptables filter OSM_PROXY_DIRECT
  ipv6_works || return 0
  drop ip6tables filter INPUT OSM_PROXY_INBOUND
  drop ip6tables filter OUTPUT OSM_PROXY_OUTBOUND
  forget ip6tables filter OSM_PROXY_INBOUND OSM_PROXY_OUTBOUND
}

)sh";

constexpr std::string_view kTail = R"sh(
[ "$(id -u)" = 0 ] || fail "must be run as root"
command -v iptables >/dev/null || fail "iptables is missing; on Debian: apt-get install iptables"
case "${1-}" in
  "") apply ;;
  --remove) remove ;;
  *) fail "unknown argument '$1'; usage: intercept.sh [--remove]" ;;
esac
)sh";

// A shell line that adds the jump, unless it exists.
std::string jump_of_script(std::string_view command, const BuiltInJump& jump) {
  return fmt::format("$(jump {} {} {} {})", command, jump.table, jump.built_in, jump.ours);
}

}  // namespace

InterceptionRules interception_rules(const InterceptionOptions& options, const Jump& jump,
                                     std::string_view workload_address) {
  return {tables_v4(options, jump, workload_address), tables_v6(options, jump)};
}

Result<std::string> interception_script(const InterceptionOptions& options) {
  OSM_TRY(check_interception(options));
  const InterceptionRules rules = interception_rules(options, jump_of_script);
  // The shell expands here-documents, for jump and spare_name_servers; the rules contain no other
  // '$', and no '`'.
  return fmt::format(R"sh({}{}apply() {{
{}  iptables-restore -w --noflush <<RULES
{}RULES
  # IPv6 is not redirected. What the mesh guards must not be reachable around it.
  if [ ! -e /proc/net/if_inet6 ]; then
    return 0
  elif ipv6_works; then
    ip6tables-restore -w --noflush <<RULES
{}RULES
  else
    echo "intercept.sh: ip6tables does not work here: IPv6 connections bypass the mesh" >&2
  fi
}}
{})sh",
                     kHead, dns_functions(options), dns_commands(options), rules.v4, rules.v6,
                     kTail);
}

}  // namespace osm::inline v1::inject
