// Egress, policy.openservicemesh.io/v1alpha1.
#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "model/host.hpp"
#include "model/ip_address.hpp"
#include "osm/values/egress.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::string_view kRouteGroupApi = "specs.smi-spec.io/v1alpha4";
constexpr std::string_view kPolicyApi = "policy.openservicemesh.io/v1alpha1";
// Limit for hosts × networks × ports of one object: each combination can become a match of Envoy's.
constexpr std::size_t kMaxCombinations = 4096;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

EgressPort port_of(const Field& field, bool has_hosts) {
  EgressPort out;
  const auto [map, number, protocol] = field.required_map("number", "protocol");
  if (!map) return out;
  out.number = number.required().port().value_or(Port{});
  const std::string word = lower(protocol.required_text());
  constexpr auto kWords =
      std::to_array<std::string_view>({"http", "https", "tcp", "tcp-server-first"});
  const auto at = std::find(kWords.begin(), kWords.end(), word);
  if (at != kWords.end())
    out.protocol = static_cast<EgressProtocol>(at - kWords.begin());
  else if (!word.empty())
    protocol.refuse("must be one of " + joined(kWords));
  if (word == "http" && !has_hosts)
    field.refuse("needs spec.hosts: requests are admitted by their host");
  return out;
}

// Names that lead to the sidecar's own machine, where its admin interface listens.
bool is_own_machine(std::string_view name) {
  return name == "localhost" || name.ends_with(".localhost") ||
         (model::is_ipv4(name) && (name.starts_with("127.") || name.starts_with("0.")));
}

// A resolver may read a name that ends in a number as an address.
bool is_name(std::string_view text) {
  const auto last = text.substr(text.rfind('.') + 1);
  const bool number = last.find_first_not_of("0123456789") == last.npos;
  return is_dns_name(text) && (!number || model::is_ipv4(text));
}

EgressHost host_of(const Field& field, const std::set<Port>& ports) {
  const std::string text = field.required_text();
  if (text.empty()) return {};
  const bool wildcard = text.starts_with("*.");
  const auto host = model::host_of(std::string_view(text).substr(wildcard ? 2 : 0));
  const std::string name = host ? host->name : "";
  EgressHost out{(wildcard ? "*." : "") + name, host ? host->port : std::nullopt};
  if (!is_name(name) || (wildcard && model::is_ipv4(name))) {
    field.refuse(
        "must be a host such as example.com, *.example.com or example.com:8443, without scheme "
        "and path");
  } else if (is_own_machine(name)) {
    field.refuse("is the sidecar's own machine, which is not outside of the mesh");
  } else if (out.port && !ports.contains(*out.port)) {
    field.refuse("names port " + std::to_string(number(*out.port)) +
                 ", which spec.ports does not have");
  }
  return out;
}

// An absent or empty list has no value.
template <class Read>
auto written(const Field& list, std::string_view what, Read read)
    -> std::optional<decltype(list.elements(what, read))> {
  if (list.list().empty()) return std::nullopt;
  return list.elements(what, read);
}

void read_networks(const Field& field, Egress& out) {
  out.networks = written(field, "address", network_of);
  if (!out.networks) return;
  std::sort(out.networks->begin(), out.networks->end());
  out.networks->erase(std::unique(out.networks->begin(), out.networks->end()), out.networks->end());
  if (!out.networks->empty() && out.networks->front().length == 0) out.networks.reset();
}

// Without a setting the Egress would allow more, so a fault of one refuses the object. Without a
// group it allows less.
void read_matches(const Field& matches, Egress& out) {
  for (const Field& field : matches.list()) {
    if (text_at(*field.value(), "kind") == kinds::kUpstreamTrafficSetting.kind) {
      const auto [map, group, kind, name] = field.required_map("apiGroup", "kind", "name");
      const std::string api = group.required_text();
      if (!api.empty() && api != kPolicyApi) group.refuse("must be " + std::string(kPolicyApi));
      if (!out.setting.empty())
        field.refuse("is the second UpstreamTrafficSetting; an Egress has one at most");
      out.setting = required_subdomain(name);
      continue;
    }
    if (!out.route_groups) out.route_groups.emplace();
    const auto route_group = field.element("match", [&](const Field& match) {
      const auto [map, group, kind, name] = match.required_map("apiGroup", "kind", "name");
      if (!map) return std::string();
      const std::string api = group.required_text();
      const std::string word = kind.required_text();
      if (!api.empty() && !word.empty() &&
          (api != kRouteGroupApi || word != kinds::kHttpRouteGroup.kind))
        match.refuse("must be an HTTPRouteGroup of " + std::string(kRouteGroupApi) +
                     " or an UpstreamTrafficSetting of " + std::string(kPolicyApi));
      return required_subdomain(name);
    });
    if (route_group) out.route_groups->push_back(*route_group);
  }
}

void check_cost(const Field& spec, const Egress& egress) {
  const std::size_t combinations =
      egress.ports.size() * std::max<std::size_t>(1, egress.hosts ? egress.hosts->size() : 1) *
      std::max<std::size_t>(1, egress.networks ? egress.networks->size() : 1);
  if (combinations > kMaxCombinations)
    spec.refuse_object("hosts, ipAddresses and ports have " + std::to_string(combinations) +
                           " combinations, and at most " + std::to_string(kMaxCombinations) +
                           " are supported; split the object",
                       ErrorCode::kTooLarge);
}

void note_open_ports(const Field& hosts, const Egress& egress) {
  if (!egress.hosts || egress.networks) return;
  for (const EgressPort& port : egress.ports)
    if (port.protocol == EgressProtocol::kTcp || port.protocol == EgressProtocol::kTcpServerFirst)
      return hosts.note("do not narrow tcp ports: port " + std::to_string(number(port.number)) +
                        " is open to every address; give spec.ipAddresses");
}

Egress egress_of(const Field& spec, const std::string& ns) {
  Egress out;
  const auto [map, sources, hosts, addresses, ports, matches] =
      spec.required_map("sources", "hosts", "ipAddresses", "ports", "matches");
  if (!map) return out;
  out.sources = sources.required().elements(
      "source", [&](const Field& field) { return own_account(field, "Egress", ns); });
  const auto* list = hosts.value();
  const bool has_hosts = list != nullptr && list->is_array() && !list->as_array().empty();
  std::set<Port> numbers;
  out.ports = ports.required().elements("port", [&](const Field& field) {
    const EgressPort port = port_of(field, has_hosts);
    numbers.insert(port.number);
    return port;
  });
  out.hosts = written(hosts, "host", [&](const Field& field) { return host_of(field, numbers); });
  read_networks(addresses, out);
  read_matches(matches, out);
  check_cost(spec, out);
  note_open_ports(hosts, out);
  return out;
}

}  // namespace

DecodedPolicy decode_egress(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  Egress egress = egress_of(reader.root()["spec"], object.key.ns);
  return std::move(reader).finish_policy(std::move(egress));
}

}  // namespace osm::inline v1::spec
