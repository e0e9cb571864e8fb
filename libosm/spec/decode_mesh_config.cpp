// Decodes MeshConfig, config.openservicemesh.io/v1alpha2. Fields without effect are reported.
#include <algorithm>
#include <map>

#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostPathBytes = 1024;
constexpr Port kOpenTelemetryPort{4317};  // of OTLP over gRPC

constexpr DurationRule kValidity{std::chrono::seconds(10), std::chrono::hours(24 * 365 * 10),
                                 "from 10s to 87600h, such as 48h or 1h30m"};
constexpr DurationRule kTimeout{milliseconds(1), std::chrono::minutes(1),
                                "from 1ms to 1m, such as 500ms or 1s"};

template <class Duration>
void read_duration(const Field& field, const DurationRule& rule, Duration& duration) {
  if (const auto read = duration_of(field, rule))
    duration = std::chrono::duration_cast<Duration>(*read);
}

void read_key(const Field& certificate, MeshConfig& config) {
  const Field algorithm = certificate["keyAlgorithm"];
  const std::string name = algorithm.text().value_or("ECDSA");
  if (name == "RSA") {
    config.certificates.key_type = KeyType::kRsa;
  } else if (name == "Ed25519") {
    config.certificates.key_type = KeyType::kEd25519;
  } else if (name != "ECDSA") {
    algorithm.refuse("must be ECDSA (P-256), RSA or Ed25519");
  }
  const Field bits = certificate["certKeyBitSize"];
  if (auto size = bits.integer(2048, 4096)) {
    config.certificates.rsa_bits = static_cast<int>(*size);
    if (config.certificates.key_type != KeyType::kRsa)
      bits.note("applies to RSA keys only; set spec.certificate.keyAlgorithm: RSA to use it");
  }
}

// Zerolog's names, as in OSM. A level that LogLevel lacks becomes the nearest one.
std::optional<LogLevel> log_level_of(const Field& field) {
  if (field.text().value_or("").empty()) return std::nullopt;
  using enum LogLevel;
  return choice_of<std::optional<LogLevel>>(field,
                                            {{"trace", kDebug},
                                             {"debug", kDebug},
                                             {"info", kInfo},
                                             {"warn", kWarning},
                                             {"warning", kWarning},
                                             {"error", kError},
                                             {"fatal", kError},
                                             {"panic", kError},
                                             {"disabled", kError}},
                                            std::nullopt);
}

// Address of a server outside the mesh; "" counts as absent.
void read_address(const Field& field, std::string& address) {
  if (const auto text = field.text(); text && !text->empty()) address = host_of(field);
}

bool is_path(std::string_view text) {
  return text.starts_with('/') && text.size() <= kMostPathBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

TracingConfig tracing_of(const Field& field, const std::string& osm_namespace,
                         const std::string& cluster_domain) {
  TracingConfig tracing;
  tracing.address = "jaeger." + osm_namespace + ".svc." + cluster_domain;
  const auto [map, enable, protocol, address, port, endpoint] =
      field.optional_map("enable", "protocol", "address", "port", "endpoint");
  tracing.enabled = enable.boolean().value_or(false);
  using enum TracingProtocol;
  tracing.protocol = choice_of<TracingProtocol>(
      protocol, {{"Zipkin", kZipkin}, {"OpenTelemetry", kOpenTelemetry}}, kZipkin);
  if (tracing.protocol == kOpenTelemetry) tracing.port = kOpenTelemetryPort;
  read_address(address, tracing.address);
  tracing.port = port.port().value_or(tracing.port);
  if (const std::string path = endpoint.text().value_or(""); !path.empty()) {
    if (!is_path(path)) endpoint.refuse("must be a path, such as /api/v2/spans");
    if (tracing.protocol == kOpenTelemetry)
      endpoint.note("has no effect: only Zipkin's protocol has a path");
    tracing.endpoint = path;
  }
  return tracing;
}

// Mistyped fields are refused: ignoring one would let requests pass without authorization.
ExternalAuthorization authorization_of(const Field& field) {
  ExternalAuthorization authorization;
  const auto [map, enable, address, port, prefix, timeout, failure_mode_allow] =
      field.optional_map("enable", "address", "port", "statPrefix", "timeout", "failureModeAllow");
  authorization.enabled = enable.boolean().value_or(false);
  read_address(address, authorization.address);
  authorization.port = port.port().value_or(Port{});
  if (const std::string text = prefix.text().value_or(""); !text.empty()) {
    if (text.size() > 128 || !consists_of(text, "_-."))
      prefix.refuse("must be at most 128 letters, digits, '_', '-' and '.'");
    authorization.stat_prefix = text;
  }
  read_duration(timeout, kTimeout, authorization.timeout);
  authorization.failure_mode_allow = failure_mode_allow.boolean().value_or(false);
  if (!authorization.enabled) return authorization;
  if (authorization.address.empty())
    address.refuse("is required where enable is true: the server to ask");
  if (authorization.port == Port{})
    port.refuse("is required where enable is true, from 1 to 65535");
  return authorization;
}

std::optional<IngressGatewayCertificate> ingress_gateway_of(const Field& field) {
  const auto [map, names, validity, secret] =
      field.optional_map("subjectAltNames", "validityDuration", "secret");
  if (!map) return std::nullopt;
  IngressGatewayCertificate gateway;
  for (const Field& name : names.required().list())
    gateway.subject_alt_names.push_back(required_subdomain(name));
  if (names.present() && names.list().empty()) names.refuse("must have at least one host name");
  read_duration(validity, kValidity, gateway.validity);
  if (const auto [is_map, name, ns] = secret.required_map("name", "namespace"); is_map) {
    gateway.secret_name = required_subdomain(name);
    gateway.secret_namespace = required_label(ns);
  }
  return gateway;
}

// A mistyped element refuses the MeshConfig: without it, other namespaces could claim its networks.
std::vector<AddressAllotment> allotments_of(const Field& addresses) {
  std::vector<AddressAllotment> out;
  const auto [map, allotments] = addresses.optional_map("allotments");
  for (const Field& item : allotments.list()) {
    const auto [is_map, networks, namespaces] = item.required_map("networks", "namespaces");
    if (!is_map) continue;
    AddressAllotment& allotment = out.emplace_back();
    for (const Field& network : networks.required().list())
      allotment.networks.push_back(network_of(network));
    if (networks.present() && networks.list().empty())
      networks.refuse("must have at least one network, such as 10.1.0.0/16");
    for (const Field& name : namespaces.required().list())
      allotment.namespaces.push_back(name.text() == "*" ? "*" : required_label(name));
  }
  return out;
}

// OSM's fields by section of spec, and the messages for those without effect.
struct Section {
  std::string_view name;
  std::vector<std::string_view> used;  // empty: other fields are refused where it is read
  std::map<std::string_view, std::string_view> unused;
};

constexpr std::string_view kNoWindows = "has no effect: there are no Windows sidecars";
constexpr std::string_view kNothingToResync =
    "has no effect: proxies are sent every change as it happens, so nothing is left to repeat";
constexpr std::string_view kNoDebugServer =
    "has no effect: `osm` asks the controller's admin socket, which is always there";
constexpr std::string_view kGone = "has no effect: there is nothing to switch here";

const std::vector<Section>& sections() {
  static const std::vector<Section> kSections{
      {"sidecar",
       {"enablePrivilegedInitContainer", "logLevel", "maxDataPlaneConnections", "envoyImage",
        "initContainerImage", "resources", "tlsMinProtocolVersion", "tlsMaxProtocolVersion",
        "cipherSuites", "ecdhCurves", "localProxyMode", "headers"},
       {{"envoyWindowsImage", kNoWindows}, {"configResyncInterval", kNothingToResync}}},
      {"traffic",
       {"enableEgress", "enablePermissiveTrafficPolicyMode", "outboundIPRangeExclusionList",
        "outboundIPRangeInclusionList", "outboundPortExclusionList", "inboundPortExclusionList",
        "inboundIPRangeExclusionList", "networkInterfaceExclusionList",
        "inboundExternalAuthorization"},
       {}},
      {"observability", {"osmLogLevel", "tracing"}, {{"enableDebugServer", kNoDebugServer}}},
      {"certificate",
       {"serviceCertValidityDuration", "proxyCertValidityDuration", "certKeyBitSize",
        "keyAlgorithm", "ingressGateway"},
       {}},
      {"featureFlags",
       {"enableEgressPolicy", "enableIngressBackendPolicy", "enableEnvoyActiveHealthChecks",
        "enableRetryPolicy", "enableWASMStats"},
       {{"enableSnapshotCacheMode", kGone},
        {"enableAsyncProxyServiceMapping", kGone},
        {"enableMulticlusterMode", kGone}}},
      {"addresses", {}, {}},
  };
  return kSections;
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
    if (section->used.empty()) continue;
    for (const auto& [member, item] : field.members()) {
      if (std::find(section->used.begin(), section->used.end(), member) != section->used.end())
        continue;
      const auto known = section->unused.find(member);
      item.note(known != section->unused.end() ? std::string(known->second)
                                               : "MeshConfig has no such field; it has no effect");
    }
  }
}

}  // namespace

Decoded<MeshConfig> decode_mesh_config(const Object& object, const std::string& cluster_domain) {
  ObjectReader reader(object, NameRule::kSubdomain);
  MeshConfig config;
  config.proxy.cluster_domain = cluster_domain;
  const Field spec = reader.root()["spec"];
  if (spec.present() && spec.required_map()) {
    const Field traffic = spec["traffic"];
    config.proxy.permissive =
        traffic["enablePermissiveTrafficPolicyMode"].boolean().value_or(false);
    config.proxy.egress = traffic["enableEgress"].boolean().value_or(false);
    const Field certificate = spec["certificate"];
    read_duration(certificate["serviceCertValidityDuration"], kValidity,
                  config.certificates.service_validity);
    read_duration(certificate["proxyCertValidityDuration"], kValidity,
                  config.certificates.proxy_validity);
    read_key(certificate, config);
    config.certificates.ingress_gateway = ingress_gateway_of(certificate["ingressGateway"]);
    const Field sidecar = spec["sidecar"];
    config.injection.sidecar = sidecar_of(sidecar);
    config.proxy.tls = tls_settings_of(sidecar);
    config.proxy.headers = header_limits_of(sidecar["headers"]);
    config.max_proxies = static_cast<std::size_t>(
        sidecar["maxDataPlaneConnections"].integer(0, INT32_MAX).value_or(0));
    config.injection.exclusions = exclusions_of(traffic);
    config.proxy.external_authorization = authorization_of(traffic["inboundExternalAuthorization"]);
    const Field observability = spec["observability"];
    config.log_level = log_level_of(observability["osmLogLevel"]);
    if (observability["tracing"].present())
      config.proxy.tracing = tracing_of(observability["tracing"], object.key.ns, cluster_domain);
    config.proxy.active_health_checks =
        spec["featureFlags"]["enableEnvoyActiveHealthChecks"].boolean().value_or(false);
    config.proxy.egress_policy =
        spec["featureFlags"]["enableEgressPolicy"].boolean().value_or(true);
    config.proxy.retries = spec["featureFlags"]["enableRetryPolicy"].boolean().value_or(false);
    config.proxy.ingress =
        spec["featureFlags"]["enableIngressBackendPolicy"].boolean().value_or(true);
    config.proxy.request_metrics =
        spec["featureFlags"]["enableWASMStats"].boolean().value_or(false);
    config.allotments = allotments_of(spec["addresses"]);
    report_unused(spec);
  }
  return std::move(reader).finish(std::move(config));
}

}  // namespace osm::inline v1::spec
