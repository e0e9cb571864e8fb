#include "inject/envoy_bootstrap.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/numbers.hpp"
#include "inject/metrics_listener.hpp"
#include "inject/refusal.hpp"
#include "model/ip_address.hpp"
#include "model/names.hpp"
#include "model/signature_algorithms.hpp"

namespace osm::inline v1::inject {
namespace {

constexpr std::string_view kCertificateFile = "sds_cert.pem";
constexpr std::string_view kTrustBundleFile = "cacert.pem";
constexpr std::string_view kCertificateSds = "tls_certificate_sds_secret.yaml";
constexpr std::string_view kValidationSds = "validation_context_sds_secret.yaml";

BootstrapFile proxys(std::string_view name, std::string content) {
  return {std::string(name), 0600, true, std::move(content)};
}

// TLS towards the controller. MeshConfig's TLS fields are not for this connection: the controller
// takes P-256 and gRPC's cipher suites only, so a list without them would shut out every new proxy.
std::string tls_parameters() {
  // A YAML flow sequence; JSON is valid there.
  const std::string algorithms = boost::json::serialize(
      boost::json::array(model::kSignatureAlgorithms.begin(), model::kSignatureAlgorithms.end()));
  return "{tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3, "
         "signature_algorithms: " +
         algorithms + "}";
}

std::string certificate_sds(const std::string& directory) {
  return fmt::format(R"(resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: tls_sds
  tls_certificate:
    certificate_chain: {{filename: "{0}/{1}"}}
    private_key: {{filename: "{0}/{2}"}}
    watched_directory: {{path: "{0}"}}
)",
                     directory, kCertificateFile, kProxyKeyFile);
}

// Envoy accepts these names in addition to those of the bootstrap, which it read at its start,
// perhaps before the trust domain changed.
std::string validation_sds(const std::string& directory, const std::vector<TrustDomain>& domains) {
  std::string names;
  for (const TrustDomain& domain : domains)
    names += fmt::format("    - {{san_type: URI, matcher: {{exact: \"{}\"}}}}\n",
                         model::controller_spiffe_id(domain).str());
  return fmt::format(R"(resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: validation_context_sds
  validation_context:
    trusted_ca: {{filename: "{0}/{1}"}}
    watched_directory: {{path: "{0}"}}
    match_typed_subject_alt_names:
{2})",
                     directory, kTrustBundleFile, names);
}

// Cluster for the control plane. It pins the peer's identity here, in addition to the file with the
// trust bundle, so that a renewal of the bundle cannot remove the pin.
std::string controller_cluster(const EnvoyBootstrap& input) {
  const HostPort& controller = input.controller;
  const bool literal = model::is_ipv4(controller.host) || model::is_ipv6(controller.host);
  return fmt::format(R"(  - name: osm-controller
    type: {0}
    connect_timeout: 2s
    load_assignment:
      cluster_name: osm-controller
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: "{1}", port_value: {2}}}}}}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config:
          http2_protocol_options:
            connection_keepalive: {{interval: 30s, timeout: 10s}}
    upstream_connection_options:
      tcp_keepalive: {{keepalive_probes: 3, keepalive_time: 5, keepalive_interval: 1}}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          alpn_protocols: [h2]
          tls_params: {7}
          tls_certificate_sds_secret_configs:
          - name: tls_sds
            sds_config: {{resource_api_version: V3, path_config_source: {{path: "{3}/{4}"}}}}
          combined_validation_context:
            default_validation_context:
              match_typed_subject_alt_names:
              - san_type: URI
                matcher: {{exact: "{6}"}}
            validation_context_sds_secret_config:
              name: validation_context_sds
              sds_config: {{resource_api_version: V3, path_config_source: {{path: "{3}/{5}", watched_directory: {{path: "{3}"}}}}}}
)",
                     literal ? "STATIC" : "STRICT_DNS", controller.host, controller.port,
                     input.directory, kCertificateSds, kValidationSds,
                     model::controller_spiffe_id(input.trust_domain.controller).str(),
                     tls_parameters());
}

std::string bootstrap_yaml(const EnvoyBootstrap& input) {
  return fmt::format(
      R"({0}node:
  id: {1}
  cluster: "{2}.{3}"
admin:
  address: {{socket_address: {{address: 127.0.0.1, port_value: {4}}}}}
dynamic_resources:
  ads_config:
    api_type: {6}
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc:
        cluster_name: osm-controller
        retry_policy: {{retry_back_off: {{base_interval: 0.2s, max_interval: 2s}}}}
  cds_config: {{resource_api_version: V3, {7}ads: {{}}}}
  lds_config: {{resource_api_version: V3, {7}ads: {{}}}}
# Counters of a cluster exist from its first use: they are a third of its memory.
deferred_stat_options: {{enable_deferred_creation_stats: true}}
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: 50000
# Envoy refuses regexes of more than 100 by itself; the mesh accepts ten times that, and no more.
layered_runtime:
  layers:
  - name: mesh
    static_layer:
      re2: {{max_program_size: {{error_level: 2000}}}}
      # A header that occurs twice is matched as one value, "a,b". One allowed value must not suffice.
      envoy.reloadable_features.match_headers_individually: false
      envoy.reloadable_features.rbac_match_headers_individually: false
      envoy.resource_limits.listener.{10}.connection_limit: 32
static_resources:
  clusters:
{5}{11}{8}  listeners:
{12}{9})",
      input.header, input.certificate.subject.common_name.str(), input.account.name,
      input.account.ns, number(kAdminPort), controller_cluster(input),
      input.xds == XdsVariant::kDelta ? "DELTA_GRPC" : "GRPC",
      input.wait_for_mesh ? "initial_fetch_timeout: 0s, " : "", input.clusters, input.listeners,
      kMetricsListener, metrics_cluster(), metrics_listener());
}

Status check(const EnvoyBootstrap& input) {
  if (!is_dns_label(input.account.ns))
    return invalid("account.namespace", fmt::format("'{}' is no name", input.account.ns));
  std::vector<std::pair<const char*, const std::string*>> names{
      {"account.name", &input.account.name},
      {"certificate.common_name", &input.certificate.subject.common_name.str()},
      {"trust domain", &input.trust_domain.controller.str()}};
  for (const TrustDomain& accepted : input.trust_domain.accepted)
    names.emplace_back("trust domain", &accepted.str());
  for (const auto& [field, name] : names)
    if (!is_dns_name(*name)) return invalid(field, fmt::format("'{}' is no name", *name));
  if (input.certificate.chain_pem.empty()) return invalid("certificate", "has no chain");
  if (input.trust_bundle_pem.empty()) return invalid("trust bundle", "is empty");
  return {};
}

}  // namespace

Result<HostPort> parse_controller(const std::string& text) {
  const auto wanted = [&] {
    return invalid("controller", fmt::format("'{}' is not HOST:PORT, like 192.0.2.1:15128", text));
  };
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : port_of(text.substr(colon + 1));
  if (!port) return wanted();
  HostPort parsed{text.substr(0, colon), number(*port)};
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    if (!model::is_ipv6(parsed.host)) return wanted();
  } else if (auto name = dns_name_of(parsed.host)) {
    parsed.host = *std::move(name);
  } else {
    return wanted();
  }
  if (parsed.host == "0.0.0.0" || parsed.host == "::") {
    return invalid("controller", fmt::format("{} is where a server listens, not where the machine "
                                             "reaches it: give the controller's address or name",
                                             parsed.host));
  }
  return parsed;
}

std::vector<BootstrapFile> certificate_files(const certificate::Certificate& certificate,
                                             const std::string& trust_bundle_pem,
                                             const TrustDomains& trust_domain,
                                             const std::string& directory) {
  return {proxys(kCertificateFile, certificate.chain_pem),
          proxys(kTrustBundleFile, trust_bundle_pem),
          proxys(kValidationSds, validation_sds(directory, trust_domain.accepted))};
}

Result<std::vector<BootstrapFile>> proxy_files(const EnvoyBootstrap& input) {
  OSM_TRY(check(input));
  auto files = certificate_files(input.certificate, input.trust_bundle_pem, input.trust_domain,
                                 input.directory);
  files.push_back(proxys(kCertificateSds, certificate_sds(input.directory)));
  files.push_back(proxys("bootstrap.yaml", bootstrap_yaml(input)));
  return files;
}

}  // namespace osm::inline v1::inject
