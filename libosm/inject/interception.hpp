// The rules of an interception, for a machine's script and a pod's init container.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {

// A jump from a built-in chain to one of ours, as its first rule for TCP.
struct BuiltInJump {
  std::string_view table;
  std::string_view built_in;
  std::string_view ours;
};

inline constexpr std::array<BuiltInJump, 3> kJumpsV4{{
    {"nat", "PREROUTING", "OSM_PROXY_INBOUND"},
    {"nat", "OUTPUT", "OSM_PROXY_OUTBOUND"},
    {"filter", "INPUT", "OSM_PROXY_DIRECT"},
}};
inline constexpr std::array<BuiltInJump, 2> kJumpsV6{{
    {"filter", "INPUT", "OSM_PROXY_INBOUND"},
    {"filter", "OUTPUT", "OSM_PROXY_OUTBOUND"},
}};

// The line of a jump; `command` is iptables or ip6tables.
using Jump = std::function<std::string(std::string_view command, const BuiltInJump& jump)>;

struct InterceptionRules {
  std::string v4;  // tables in the form of iptables-restore --noflush
  std::string v6;
};

// Failure: kInvalidArgument naming the option and its value.
Status check_interception(const InterceptionOptions& options);

// The rules for checked options, for a here-document of a shell with name_server_functions(). With
// a `workload_address` the proxy's connections to 127.0.0.1 go to that address.
InterceptionRules interception_rules(const InterceptionOptions& options, const Jump& jump,
                                     std::string_view workload_address = {});

}  // namespace osm::inline v1::inject
