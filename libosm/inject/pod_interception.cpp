#include "inject/pod_interception.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "inject/dns_redirect.hpp"
#include "inject/interception.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnnotation = 64 << 10;  // bytes
constexpr std::string_view kInboundPorts = "inboundPorts";
constexpr std::string_view kInboundRanges = "inboundIPRanges";
constexpr std::string_view kOutboundPorts = "outboundPorts";
constexpr std::string_view kOutboundRanges = "outboundIPRanges";
constexpr std::string_view kIncludedRanges = "outboundIncludedIPRanges";
constexpr std::string_view kInterfaces = "interfaces";
constexpr std::string_view kLocalProxyMode = "localProxyMode";

std::string jump_of_pod(std::string_view, const BuiltInJump& jump) {
  return fmt::format("-I {} 1 -p tcp -j {}", jump.built_in, jump.ours);
}

// Shell lines that remove the jumps: an init container may run a second time in the same sandbox.
template <std::size_t N>
std::string undo_jumps(std::string_view indent, std::string_view command,
                       const std::array<BuiltInJump, N>& jumps) {
  std::string lines;
  for (const BuiltInJump& jump : jumps)
    lines +=
        fmt::format("{}undo {} {} {} {}\n", indent, command, jump.table, jump.built_in, jump.ours);
  return lines;
}

Error unreadable(std::string_view cause) {
  return {ErrorCode::kInvalidField, fmt::format("annotation {}: {}: only osm-injector may write it",
                                                kInterceptionAnnotation, cause)};
}

json::array numbers_of(const std::vector<Port>& ports) {
  json::array list;
  for (const Port port : ports) list.emplace_back(std::int64_t{number(port)});
  return list;
}

json::array texts_of(const std::vector<std::string>& texts) {
  return json::array(texts.begin(), texts.end());
}

Status read_ports(const json::value& value, std::vector<Port>& ports) {
  if (!value.is_array()) return unreadable("ports are no list");
  for (const json::value& item : value.get_array()) {
    boost::system::error_code fault;
    const auto port = item.to_number<std::uint16_t>(fault);
    if (fault || port == 0) return unreadable("a port is not from 1 to 65535");
    ports.push_back(Port{port});
  }
  return {};
}

Status read_texts(const json::value& value, std::vector<std::string>& texts) {
  if (!value.is_array()) return unreadable("networks or interfaces are no list");
  for (const json::value& item : value.get_array()) {
    if (!item.is_string()) return unreadable("a network or an interface is no text");
    texts.emplace_back(item.get_string());
  }
  return {};
}

// Pods have no excluded port but those of the annotation.
InterceptionOptions of_pod() { return {.inbound_excluded = {}, .mesh_networks_v6 = {"::/0"}}; }

}  // namespace

std::string init_script(const InterceptionOptions& options, LocalProxyMode mode) {
  constexpr std::string_view kCheckAddress = R"sh(case "$POD_IP" in
  "" | *[!0-9.]*) fail "MeshConfig's localProxyMode PodIP needs a pod with an IPv4 address, not '$POD_IP'" ;;
esac
)sh";
  const bool pod_ip = mode == LocalProxyMode::kPodIp;
  const InterceptionRules rules = interception_rules(options, jump_of_pod, pod_ip ? "$POD_IP" : "");
  // The shell expands here-documents; the rules contain no '$' except those of POD_IP and
  // spare_name_servers.
  return fmt::format(R"sh(set -eu
fail() {{ echo "osm-init: $*" >&2; exit 1; }}
undo() {{ # COMMAND TABLE BUILT-IN OURS
  printf '*%s\n-D %s -p tcp -j %s\nCOMMIT\n' "$2" "$3" "$4" | "$1"-restore -w --noflush 2>/dev/null || :
}}
{5}
{0}{1}iptables-restore -w --noflush <<RULES
{2}RULES
# IPv6 is not redirected. What the mesh guards must not be reachable around it.
if [ -e /proc/net/if_inet6 ]; then
{3}  ip6tables-restore -w --noflush <<RULES || case "${{POD_IPS-}}" in
{4}RULES
    *:*) fail "the pod has an IPv6 address, and ip6tables does not work here: load the node's ip6table_filter" ;;
    *) echo "osm-init: ip6tables does not work here, and the pod has no IPv6 address" >&2 ;;
  esac
fi
)sh",
                     pod_ip ? kCheckAddress : "", undo_jumps("", "iptables", kJumpsV4), rules.v4,
                     undo_jumps("  ", "ip6tables", kJumpsV6), rules.v6, name_server_functions());
}

std::string interception_annotation(const InterceptionOptions& options, LocalProxyMode mode) {
  json::object text{{kInboundPorts, numbers_of(options.inbound_excluded)},
                    {kOutboundPorts, numbers_of(options.outbound_excluded)},
                    {kOutboundRanges, texts_of(options.outbound_excluded_networks)},
                    {kIncludedRanges, texts_of(options.outbound_included_networks)},
                    {kInterfaces, texts_of(options.excluded_interfaces)},
                    {kLocalProxyMode, mode == LocalProxyMode::kPodIp ? "PodIP" : "Localhost"}};
  // An osm-cni of an earlier version refuses fields that it does not know.
  if (!options.inbound_excluded_networks.empty())
    text[kInboundRanges] = texts_of(options.inbound_excluded_networks);
  return json::serialize(text);
}

Result<std::string> pod_interception_script(std::string_view annotation) {
  if (annotation.size() > kMaxAnnotation) return unreadable("is too long");
  boost::system::error_code fault;
  const json::value text = json::parse(annotation, fault);
  if (fault || !text.is_object()) return unreadable("is no JSON object");
  InterceptionOptions options = of_pod();
  LocalProxyMode mode = LocalProxyMode::kLocalhost;
  for (const auto& [key, value] : text.get_object()) {
    if (key == kInboundPorts) {
      OSM_TRY(read_ports(value, options.inbound_excluded));
    } else if (key == kInboundRanges) {
      OSM_TRY(read_texts(value, options.inbound_excluded_networks));
    } else if (key == kOutboundPorts) {
      OSM_TRY(read_ports(value, options.outbound_excluded));
    } else if (key == kOutboundRanges) {
      OSM_TRY(read_texts(value, options.outbound_excluded_networks));
    } else if (key == kIncludedRanges) {
      OSM_TRY(read_texts(value, options.outbound_included_networks));
    } else if (key == kInterfaces) {
      OSM_TRY(read_texts(value, options.excluded_interfaces));
    } else if (key == kLocalProxyMode && (value == "PodIP" || value == "Localhost")) {
      if (value == "PodIP") mode = LocalProxyMode::kPodIp;
    } else {
      return unreadable(fmt::format("field {} is unknown, or its value", std::string_view(key)));
    }
  }
  OSM_TRY(check_interception(options));
  return init_script(options, mode);
}

}  // namespace osm::inline v1::inject
