#include "inject/bootstrap.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "model/names.hpp"

namespace osm::inject {
namespace {

constexpr std::string_view kCertificateFile = "sds_cert.pem";
constexpr std::string_view kKeyFile = "sds_key.pem";
constexpr std::string_view kTrustBundleFile = "cacert.pem";
constexpr std::string_view kCertificateSds = "tls_certificate_sds_secret.yaml";
constexpr std::string_view kValidationSds = "validation_context_sds_secret.yaml";

Error invalid(std::string_view field, std::string_view cause) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, cause)};
}

struct HostPort {
  std::string host;  // IPv6 without its brackets
  std::uint16_t port = 0;
};

bool is_address(int family, const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(family, text.c_str(), bytes.data()) == 1;
}

Result<HostPort> parse_controller(const std::string& text) {
  const auto wanted = [&] {
    return invalid("controller", fmt::format("'{}' is not HOST:PORT, like 192.0.2.1:15128", text));
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) return wanted();
  HostPort parsed{text.substr(0, colon), 0};
  const char* end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data() + colon + 1, end, parsed.port);
  if (failed != std::errc{} || at != end || parsed.port == 0) return wanted();
  if (parsed.host.size() > 2 && parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    if (!is_address(AF_INET6, parsed.host)) return wanted();
  } else if (!is_address(AF_INET, parsed.host) && !model::is_dns_subdomain(parsed.host)) {
    return wanted();
  }
  if (parsed.host == "0.0.0.0" || parsed.host == "::") {
    return invalid("controller", fmt::format("{} is where a server listens, not where the machine "
                                             "reaches it: give the controller's address or name",
                                             parsed.host));
  }
  return parsed;
}

// Text that stands in YAML double quotes, in a comment and in shell quotes: refused when it cannot.
Status check_directory(const std::string& directory) {
  if (directory.empty() || directory.front() != '/') {
    return invalid("directory", fmt::format("'{}' is not an absolute path", directory));
  }
  const bool plain = std::none_of(directory.begin(), directory.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7f || c == '\'' || c == '"' || c == '\\';
  });
  if (!plain)
    return invalid("directory", "must not hold quotes, backslashes or control characters");
  return {};
}

Status check(const VmBootstrapInput& input) {
  if (const Status directory = check_directory(input.directory); !directory.ok()) return directory;
  for (const auto& [field, name] : {std::pair{"workload.namespace", &input.workload.ns},
                                    std::pair{"account.namespace", &input.account.ns}}) {
    if (!model::is_dns_label(*name)) return invalid(field, fmt::format("'{}' is no name", *name));
  }
  for (const auto& [field, name] :
       {std::pair{"workload.name", &input.workload.name},
        std::pair{"account.name", &input.account.name},
        std::pair{"certificate.common_name", &input.certificate.subject.common_name.str()},
        std::pair{"trust domain", &input.trust_domain.str()}}) {
    if (!model::is_dns_subdomain(*name)) {
      return invalid(field, fmt::format("'{}' is no name", *name));
    }
  }
  if (input.certificate.chain_pem.empty()) return invalid("certificate", "has no chain");
  if (input.certificate.private_key.empty()) return invalid("certificate", "has no private key");
  if (input.certificate.trust_bundle_pem.empty()) return invalid("trust bundle", "is empty");
  return {};
}

// Host names of the mesh as this machine resolves them: its own namespace's also by short name.
std::string hosts(const VmBootstrapInput& input) {
  std::vector<Service> services = input.services;
  std::sort(services.begin(), services.end(),
            [](const Service& a, const Service& b) { return a.name < b.name; });
  std::string text =
      "# Names of the mesh, written by `osm vm bootstrap`: append to /etc/hosts.\n"
      "127.0.0.1 localhost\n"
      "::1 localhost\n";
  for (const Service& service : services) {
    if (service.headless || service.cluster_ip.empty()) continue;
    text += service.cluster_ip;
    if (service.name.ns == input.workload.ns) text += ' ' + service.name.name;
    text += fmt::format(" {0}.{1} {0}.{1}.svc {0}.{1}.svc.cluster.local\n", service.name.name,
                        service.name.ns);
  }
  return text;
}

InterceptionOptions completed_interception(const VmBootstrapInput& input,
                                           const HostPort& controller) {
  InterceptionOptions options = input.interception;
  if (is_address(AF_INET, controller.host)) {
    options.controller = {controller.host, Port{controller.port}};
  }
  for (const Service& service : input.services) {
    if (is_address(AF_INET6, service.cluster_ip)) {
      options.mesh_networks_v6.push_back(service.cluster_ip);
    }
  }
  return options;
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
                     directory, kCertificateFile, kKeyFile);
}

std::string validation_sds(const std::string& directory) {
  return fmt::format(R"(resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: validation_context_sds
  validation_context:
    trusted_ca: {{filename: "{0}/{1}"}}
    watched_directory: {{path: "{0}"}}
)",
                     directory, kTrustBundleFile);
}

// The connection to the control plane. The peer's identity is pinned here and not beside the trust
// bundle, so that renewing the bundle cannot lose it.
std::string controller_cluster(const VmBootstrapInput& input, const HostPort& controller) {
  const bool literal =
      is_address(AF_INET, controller.host) || is_address(AF_INET6, controller.host);
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
      tcp_keepalive: {{keepalive_probes: 5, keepalive_time: 60, keepalive_interval: 5}}
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          alpn_protocols: [h2]
          tls_params: {{tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}}
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
              sds_config: {{resource_api_version: V3, path_config_source: {{path: "{3}/{5}"}}}}
)",
                     literal ? "STATIC" : "STRICT_DNS", controller.host, controller.port,
                     input.directory, kCertificateSds, kValidationSds,
                     model::controller_spiffe_id(input.trust_domain).str());
}

std::string bootstrap_yaml(const VmBootstrapInput& input, const HostPort& controller) {
  return fmt::format(
      R"(# Envoy's bootstrap for {0}, written by `osm vm bootstrap`. As root, in this order:
#
#   '{1}/intercept.sh'
#   setpriv --reuid={2} --regid={2} --clear-groups envoy -c '{1}/bootstrap.yaml' \
#     --disable-hot-restart --drain-time-s 30 --drain-strategy immediate
#
# Hot restart is off because two Envoys of one machine would share its memory. The drain time is how
# long open TCP connections outlive a policy that ends them; HTTP requests are judged one by one.
node:
  id: {3}
  cluster: {4}.{5}
admin:
  address: {{socket_address: {{address: 127.0.0.1, port_value: {6}}}}}
dynamic_resources:
  ads_config:
    api_type: GRPC
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc:
        cluster_name: osm-controller
        retry_policy: {{retry_back_off: {{base_interval: 0.2s, max_interval: 2s}}}}
  cds_config: {{resource_api_version: V3, ads: {{}}}}
  lds_config: {{resource_api_version: V3, ads: {{}}}}
overload_manager:
  resource_monitors:
  - name: envoy.resource_monitors.global_downstream_max_connections
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig
      max_active_downstream_connections: 50000
static_resources:
  clusters:
{7})",
      input.workload.str(), input.directory, input.interception.proxy_uid,
      input.certificate.subject.common_name.str(), input.account.name, input.account.ns,
      number(kAdminPort), controller_cluster(input, controller));
}

}  // namespace

Result<std::vector<BootstrapFile>> vm_bootstrap(const VmBootstrapInput& input) {
  if (const Status checked = check(input); !checked.ok()) return checked.error();
  OSM_TRY(const HostPort controller, parse_controller(input.controller));
  OSM_TRY(std::string intercept, interception_script(completed_interception(input, controller)));
  const auto proxys = [](std::string_view name, std::string content) {
    return BootstrapFile{std::string(name), 0600, true, std::move(content)};
  };
  std::vector<BootstrapFile> files;
  files.push_back(proxys(kKeyFile, input.certificate.private_key.pem()));
  files.push_back(proxys(kCertificateFile, input.certificate.chain_pem));
  files.push_back(proxys(kTrustBundleFile, input.certificate.trust_bundle_pem));
  files.push_back(proxys(kCertificateSds, certificate_sds(input.directory)));
  files.push_back(proxys(kValidationSds, validation_sds(input.directory)));
  files.push_back(proxys("bootstrap.yaml", bootstrap_yaml(input, controller)));
  files.push_back({"hosts", 0644, false, hosts(input)});
  files.push_back({"intercept.sh", 0700, false, std::move(intercept)});
  return files;
}

}  // namespace osm::inject
