// MeshConfig, config.openservicemesh.io/v1alpha2: what has effect is read, the rest reported.
#include <algorithm>
#include <array>
#include <charconv>

#include "spec/decoder.hpp"

namespace osm::spec {
namespace {

constexpr std::chrono::seconds kLeastValidity = std::chrono::seconds(10);
constexpr std::chrono::seconds kMostValidity = std::chrono::hours(24 * 365 * 10);

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array kUnits{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                            Unit{"s", 1},     Unit{"m", 60},    Unit{"h", 3600}};

// Go's duration text: "48h", "1h30m", "1.5h". https://pkg.go.dev/time#ParseDuration
std::optional<double> seconds_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double amount = 0;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + digits, amount);
    if (fault != std::errc{} || stop != text.data() + digits) return std::nullopt;
    text.remove_prefix(digits);
    const auto letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
      return candidate.name == text.substr(0, letters);
    });
    if (unit == kUnits.end()) return std::nullopt;
    sum += amount * unit->seconds;
    text.remove_prefix(letters);
  }
  return sum;
}

void read_validity(const Field& field, MeshConfig& config) {
  const auto text = field.text();
  if (!text) return;
  const auto seconds = seconds_of(*text);
  if (!seconds || *seconds < static_cast<double>(kLeastValidity.count()) ||
      *seconds > static_cast<double>(kMostValidity.count())) {
    field.refuse("must be a duration from 10s to 87600h, such as 48h or 1h30m");
    return;
  }
  config.service_certificate_validity =
      std::chrono::seconds(static_cast<std::chrono::seconds::rep>(*seconds));
}

void read_key(const Field& certificate, MeshConfig& config) {
  const Field algorithm = certificate["keyAlgorithm"];
  const std::string name = algorithm.text().value_or("ECDSA");
  if (name == "RSA") {
    config.key_type = KeyType::kRsa;
  } else if (name != "ECDSA") {
    algorithm.refuse("must be ECDSA (P-256) or RSA");
  }
  const Field bits = certificate["certKeyBitSize"];
  if (auto size = bits.integer(2048, 4096)) {
    config.rsa_key_bits = static_cast<int>(*size);
    if (config.key_type != KeyType::kRsa)
      bits.note("applies to RSA keys only; set spec.certificate.keyAlgorithm: RSA to use it");
  }
}

// OSM's fields without effect here yet, by section of spec.
struct Section {
  std::string_view name;
  std::vector<std::string_view> used;
  std::vector<std::string_view> unused;
};

const std::vector<Section>& sections() {
  static const std::vector<Section> kSections{
      {"sidecar",
       {},
       {"enablePrivilegedInitContainer", "logLevel", "maxDataPlaneConnections", "envoyImage",
        "envoyWindowsImage", "initContainerImage", "resources", "configResyncInterval",
        "tlsMinProtocolVersion", "tlsMaxProtocolVersion", "cipherSuites", "ecdhCurves",
        "localProxyMode"}},
      {"traffic",
       {"enableEgress", "enablePermissiveTrafficPolicyMode"},
       {"outboundIPRangeExclusionList", "outboundIPRangeInclusionList", "outboundPortExclusionList",
        "inboundPortExclusionList", "networkInterfaceExclusionList",
        "inboundExternalAuthorization"}},
      {"observability", {}, {"osmLogLevel", "enableDebugServer", "tracing"}},
      {"certificate",
       {"serviceCertValidityDuration", "certKeyBitSize", "keyAlgorithm"},
       {"ingressGateway"}},
      {"featureFlags",
       {},
       {"enableWASMStats", "enableEgressPolicy", "enableIngressBackendPolicy",
        "enableSnapshotCacheMode", "enableAsyncProxyServiceMapping",
        "enableEnvoyActiveHealthChecks", "enableRetryPolicy", "enableMulticlusterMode"}},
  };
  return kSections;
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void report_unused(const Field& spec) {
  for (const auto& [name, field] : spec.members()) {
    const auto section =
        std::find_if(sections().begin(), sections().end(),
                     [&, wanted = std::string_view(name)](const Section& candidate) {
                       return candidate.name == wanted;
                     });
    if (section == sections().end()) {
      field.note("MeshConfig has no such field; it has no effect");
      continue;
    }
    for (const auto& [member, item] : field.members()) {
      if (contains(section->used, member)) continue;
      item.note(contains(section->unused, member)
                    ? "understood, but has no effect yet"
                    : "MeshConfig has no such field; it has no effect");
    }
  }
}

}  // namespace

Decoded<MeshConfig> decode_mesh_config(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  MeshConfig config;
  const Field spec = reader.root()["spec"];
  if (spec.present() && spec.required_map()) {
    const Field traffic = spec["traffic"];
    config.permissive = traffic["enablePermissiveTrafficPolicyMode"].boolean().value_or(false);
    config.egress = traffic["enableEgress"].boolean().value_or(false);
    read_validity(spec["certificate"]["serviceCertValidityDuration"], config);
    read_key(spec["certificate"], config);
    report_unused(spec);
  }
  return std::move(reader).finish(config);
}

}  // namespace osm::spec
