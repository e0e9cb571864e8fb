#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxInterfaceBytes = 15;  // IFNAMSIZ, less the NUL

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array kSuffixes{
    Suffix{"n", 1e-9},    Suffix{"u", 1e-6},    Suffix{"m", 1e-3},    Suffix{"", 1},
    Suffix{"k", 1e3},     Suffix{"M", 1e6},     Suffix{"G", 1e9},     Suffix{"T", 1e12},
    Suffix{"P", 1e15},    Suffix{"E", 1e18},    Suffix{"Ki", 0x1p10}, Suffix{"Mi", 0x1p20},
    Suffix{"Gi", 0x1p30}, Suffix{"Ti", 0x1p40}, Suffix{"Pi", 0x1p50}, Suffix{"Ei", 0x1p60}};

// "500m", "64Mi", "1e3"; never negative.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
std::optional<double> quantity_of(std::string_view text) {
  const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const auto amount = number_of<double>(text.substr(0, digits));
  if (!amount) return std::nullopt;
  const std::string_view suffix = text.substr(digits);
  for (const Suffix& known : kSuffixes)
    if (known.text == suffix) return *amount * known.factor;
  const bool exponent =
      suffix.size() > 1 && std::toupper(static_cast<unsigned char>(suffix[0])) == 'E';
  return exponent ? number_of<double>(text) : std::nullopt;
}

std::map<std::string, std::string> quantities_of(const Field& field) {
  std::map<std::string, std::string> out;
  for (const auto& [resource, amount] : field.members()) {
    if (amount.present() && whole_number(*amount.value())) {
      if (const auto whole = amount.integer(0, INT64_MAX))
        out.emplace(resource, std::to_string(*whole));
      continue;
    }
    std::string text = amount.required_text();
    if (text.empty()) continue;
    if (!quantity_of(text)) amount.refuse("must be a quantity such as 500m, 0.5, 64Mi or 1");
    out.emplace(resource, std::move(text));
  }
  return out;
}

void read_resources(const Field& field, SidecarConfig& config) {
  const auto [map, limits, requests] = field.optional_map("limits", "requests");
  config.limits = quantities_of(limits);
  config.requests = quantities_of(requests);
  for (const auto& [resource, request] : config.requests) {
    const auto limit = config.limits.find(resource);
    if (limit == config.limits.end()) continue;
    if (quantity_of(request).value_or(0) > quantity_of(limit->second).value_or(0))
      requests[resource].refuse("is more than the limit, " + limit->second +
                                ": no pod could be created");
  }
}

// Names as in Envoy; for cipher suites as in OpenSSL:
// "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]".
std::vector<std::string> tls_names_of(const Field& field) {
  std::vector<std::string> names;
  for (const Field& item : field.list()) {
    std::string name = item.required_text();
    if (!consists_of(name, "-_+|[]"))
      item.refuse("must be a name such as ECDHE-ECDSA-AES128-GCM-SHA256 or X25519");
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> networks_of(const Field& field) {
  std::set<std::string> networks;
  for (const Field& item : field.list()) networks.insert(required_network(item));
  return {networks.begin(), networks.end()};
}

std::vector<std::string> interfaces_of(const Field& field) {
  std::set<std::string> interfaces;
  for (const Field& item : field.list()) {
    std::string name = item.required_text();
    if (name.size() > kMaxInterfaceBytes || !consists_of(name, "-_."))
      item.refuse(
          "must be a network interface such as eth1: at most 15 letters, digits, '-', '_', '.'");
    interfaces.insert(std::move(name));
  }
  return {interfaces.begin(), interfaces.end()};
}

}  // namespace

SidecarConfig sidecar_of(const Field& sidecar) {
  SidecarConfig config;
  config.envoy_image = sidecar["envoyImage"].text().value_or("");
  config.init_container_image = sidecar["initContainerImage"].text().value_or("");
  const Field level = sidecar["logLevel"];
  if (choice_of(level, {"trace", "debug", "info", "warning", "warn", "error", "critical", "off"}))
    config.log_level = *level.text() == "warn" ? "warning" : *level.text();
  config.privileged_init_container =
      sidecar["enablePrivilegedInitContainer"].boolean().value_or(false);
  if (choice_of(sidecar["localProxyMode"], {"Localhost", "PodIP"}) == 1)
    config.local_proxy_mode = LocalProxyMode::kPodIp;
  read_resources(sidecar["resources"], config);
  return config;
}

TlsSettings tls_settings_of(const Field& sidecar) {
  // RFC 8996: versions before 1.2 must not be negotiated.
  TlsSettings tls;
  const auto version_of = [](const Field& field, TlsVersion fallback) {
    using enum TlsVersion;
    return choice_of(field, {{"TLS_AUTO", kAuto}, {"TLSv1_2", kTls12}, {"TLSv1_3", kTls13}},
                     fallback);
  };
  const Field least = sidecar["tlsMinProtocolVersion"];
  tls.minimum = version_of(least, tls.minimum);
  tls.maximum = version_of(sidecar["tlsMaxProtocolVersion"], tls.maximum);
  // Envoy's clients treat TLS_AUTO as "at most 1.2".
  if (tls.minimum == TlsVersion::kTls13 && tls.maximum != TlsVersion::kTls13)
    least.refuse("is above spec.sidecar.tlsMaxProtocolVersion; set that to TLSv1_3");
  tls.cipher_suites = tls_names_of(sidecar["cipherSuites"]);
  tls.ecdh_curves = tls_names_of(sidecar["ecdhCurves"]);
  return tls;
}

HeaderLimits header_limits_of(const Field& headers) {
  HeaderLimits out;
  const auto [map, count, kilobytes] = headers.optional_map("maxCount", "maxKilobytes");
  out.count = static_cast<std::uint32_t>(count.integer(1, 10'000).value_or(out.count));
  out.kilobytes = static_cast<std::uint32_t>(kilobytes.integer(1, 8192).value_or(out.kilobytes));
  return out;
}

TrafficExclusions exclusions_of(const Field& traffic) {
  return {.inbound_ip_ranges = networks_of(traffic["inboundIPRangeExclusionList"]),
          .outbound_ip_ranges = networks_of(traffic["outboundIPRangeExclusionList"]),
          .outbound_included_ip_ranges = networks_of(traffic["outboundIPRangeInclusionList"]),
          .outbound_ports = traffic["outboundPortExclusionList"].ports(),
          .inbound_ports = traffic["inboundPortExclusionList"].ports(),
          .network_interfaces = interfaces_of(traffic["networkInterfaceExclusionList"])};
}

}  // namespace osm::inline v1::spec
