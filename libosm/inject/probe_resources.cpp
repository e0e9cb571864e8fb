// Envoy resources for probes: a static listener for each kind, a cluster for each probe.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include "inject/pod_names.hpp"
#include "inject/probes.hpp"
#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {
namespace {

// JSON strings are valid in YAML.
std::string in_quotes(std::string_view text) {
  return boost::json::serialize(boost::json::string(text));
}

std::string cluster_name(const Probe& probe) {
  return fmt::format("{}_{}_cluster", probe.container, probe_word(probe.kind));
}

bool is_answered_by_sidecar(const Probe& probe) {
  return probe.method == ProbeMethod::kTcp || probe.method == ProbeMethod::kGrpc;
}

std::string cluster_head(std::string_view name, Port port, std::int64_t timeout_s) {
  return fmt::format(R"(  - name: {0}
    type: STATIC
    connect_timeout: {2}s
    load_assignment:
      cluster_name: {0}
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {1}}}}}}}
)",
                     in_quotes(name), number(port), timeout_s);
}

// Probe like kubelet: over a new connection each, accepting any certificate.
std::string passed_on(const Probe& probe) {
  constexpr std::string_view kConnections = R"(    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: {max_requests_per_connection: 1}
        explicit_http_config: {http_protocol_options: {}}
)";
  constexpr std::string_view kTls = R"(    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          tls_params: {tls_minimum_protocol_version: TLSv1_2, tls_maximum_protocol_version: TLSv1_3}
)";
  return std::string(kConnections) +
         std::string(probe.method == ProbeMethod::kHttps ? kTls : std::string_view());
}

// Checked at the probe's period while it succeeds and every second while it fails. No requests pass
// this cluster, so Envoy's "no traffic" intervals apply.
std::string checked(const Probe& probe) {
  constexpr std::string_view kHttp2 = R"(    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
)";
  const bool grpc = probe.method == ProbeMethod::kGrpc;
  return fmt::format(
      R"({0}    health_checks:
    - timeout: {1}s
      interval: {2}s
      unhealthy_interval: 1s
      no_traffic_interval: 1s
      no_traffic_healthy_interval: {2}s
      healthy_threshold: 1
      unhealthy_threshold: 1
      reuse_connection: false
      {3}
)",
      grpc ? kHttp2 : "", probe.timeout_s, probe.period_s,
      grpc ? fmt::format("grpc_health_check: {{service_name: {}, authority: localhost}}",
                         in_quotes(probe.grpc_service))
           : "tcp_health_check: {}");
}

// Envoy counts a filter's wait as part of the request.
constexpr std::string_view kNoTimeout = "0s";

std::string match(const std::string& path) {
  return fmt::format(
      R"(              - match: {{path: {}, headers: [{{name: ":method", string_match: {{exact: GET}}}}]}}
)",
      in_quotes(path));
}

std::string route(const std::string& path, std::string_view cluster, const std::string& rewritten,
                  std::int64_t timeout_s) {
  return match(path) +
         fmt::format("                route: {{cluster: {}, prefix_rewrite: {}, timeout: {}s}}\n",
                     in_quotes(cluster), in_quotes(rewritten), timeout_s);
}

// kubelet limits hooks only by the pod's end. It sends postStart once, while the application
// starts, and takes any answer for success. So Envoy retries before it answers with its own error.
std::string hook_route(const Probe& hook) {
  constexpr std::string_view kAgain =
      ", retry_policy: {retry_on: connect-failure, num_retries: 60, "
      "retry_back_off: {base_interval: 0.1s, max_interval: 1s}}";
  return match(hook.asked) +
         fmt::format(
             "                route: {{cluster: {}, prefix_rewrite: {}, timeout: 0s, "
             "idle_timeout: 0s{}}}\n",
             in_quotes(cluster_name(hook)), in_quotes(hook.path),
             hook.kind == ProbeKind::kPostStart ? kAgain : std::string_view());
}

// Route with a delayed response.
std::string wait_route(const Probe& hook) {
  return match(hook.asked) + "                direct_response: {status: 200}\n";
}

std::string wait(const Probe& hook) {
  return fmt::format(R"(          - name: drain
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
              delay: {{fixed_delay: {}s, percentage: {{numerator: 100}}}}
              headers: [{{name: ":path", string_match: {{exact: {}}}}}]
)",
                     hook.timeout_s, in_quotes(hook.asked));
}

std::string answer(const Probe& probe) {
  return fmt::format(R"(          - name: {0}
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck
              pass_through_mode: false
              headers: [{{name: ":path", string_match: {{exact: {1}}}}}]
              cluster_min_healthy_percentages: {{{0}: {{value: 100}}}}
)",
                     in_quotes(cluster_name(probe)), in_quotes(probe.asked));
}

// kubelet counts a redirect to another host as success, and the listener serves nothing else; so
// drop Location.
std::string listener(std::string_view name, Port port, const std::string& routes,
                     const std::string& answers, std::string_view request_timeout) {
  return fmt::format(R"(  - name: {0}_listener
    address: {{socket_address: {{address: 0.0.0.0, port_value: {1}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: health_probes_http
          generate_request_id: false
          server_header_transformation: PASS_THROUGH
          request_headers_timeout: 10s
          request_timeout: {4}
          common_http_protocol_options: {{idle_timeout: 30s}}
          route_config:
            name: local_route
            response_headers_to_remove: [location]
            virtual_hosts:
            - name: local_service
              domains: ["*"]
              routes:
{2}          http_filters:
{3}          - name: http_router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
)",
                     name, number(port), routes.empty() ? "              []\n" : routes, answers,
                     request_timeout);
}

// Routes and filters of one listener.
struct Served {
  std::string routes;
  std::string answers;
};

// Result: `served`, and what serves the probes of this kind.
Served serve(ProbeKind kind, const std::vector<Probe>& probes, Served served = {}) {
  for (const Probe& probe : probes) {
    if (probe.kind != kind) continue;
    if (is_answered_by_sidecar(probe)) {
      served.answers += answer(probe);
    } else if (probe.method == ProbeMethod::kWait) {
      served.routes += wait_route(probe);
      served.answers += wait(probe);
    } else if (is_hook(kind)) {
      served.routes += hook_route(probe);
    } else {
      served.routes += route(probe.asked, cluster_name(probe), probe.path, probe.timeout_s);
    }
  }
  return served;
}

}  // namespace

ProbeResources probe_resources(const std::vector<Probe>& probes) {
  constexpr std::string_view kAdminCluster = "envoy-admin-cluster";
  ProbeResources resources;
  resources.clusters = cluster_head(kAdminCluster, kAdminPort, 1);
  for (const Probe& probe : probes) {
    if (probe.method == ProbeMethod::kWait) continue;
    resources.clusters += cluster_head(cluster_name(probe), probe.port, probe.timeout_s) +
                          (is_answered_by_sidecar(probe) ? checked(probe) : passed_on(probe));
  }
  const auto listen = [&](std::string_view word, ProbeKind kind, const Served& served) {
    if (served.routes.empty() && served.answers.empty()) return;
    resources.listeners += listener(word, probe_port(kind), served.routes, served.answers,
                                    is_hook(kind) ? kNoTimeout : "10s");
  };
  for (const ProbeKind kind : {ProbeKind::kLiveness, ProbeKind::kReadiness, ProbeKind::kStartup}) {
    Served sidecars;
    if (kind != ProbeKind::kLiveness)
      sidecars.routes =
          route(probe_path(kind, std::string(kEnvoyContainer)), kAdminCluster, "/ready", 1);
    listen(probe_word(kind), kind, serve(kind, probes, std::move(sidecars)));
  }
  listen("hooks", ProbeKind::kPreStop,
         serve(ProbeKind::kPreStop, probes, serve(ProbeKind::kPostStart, probes)));
  return resources;
}

}  // namespace osm::inline v1::inject
