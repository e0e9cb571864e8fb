#include "inject/metrics_listener.hpp"

#include <fmt/format.h>

#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {

// Anybody who reaches the port may ask, so the listener has limits of its own: its connections do
// not count against those of the mesh (their number is in the bootstrap's runtime), and slow or
// frequent requests end early. Envoy's main thread answers, which also applies configuration.
std::string metrics_listener() {
  return fmt::format(R"(  - name: {0}
    address: {{socket_address: {{address: 0.0.0.0, port_value: {1}}}}}
    traffic_direction: INBOUND
    ignore_global_conn_limit: true
    per_connection_buffer_limit_bytes: 32768
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: prometheus-http-conn-manager
          common_http_protocol_options: {{idle_timeout: 120s}}
          request_headers_timeout: 5s
          stream_idle_timeout: 10s
          http_filters:
          - name: http_local_rate_limit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: prometheus
              token_bucket: {{max_tokens: 20, tokens_per_fill: 5, fill_interval: 1s}}
              filter_enabled: {{default_value: {{numerator: 100}}}}
              filter_enforced: {{default_value: {{numerator: 100}}}}
          - name: http_router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            name: rds-prometheus
            virtual_hosts:
            - name: prometheus-inbound-virtual-host
              domains: ["*"]
              routes:
              - match:
                  path: /stats/prometheus
                  headers: [{{name: ":method", string_match: {{exact: GET}}}}]
                route: {{cluster: envoy-metrics-cluster, timeout: 10s}}
)",
                     kMetricsListener, number(kPrometheusPort));
}

std::string metrics_cluster() {
  return fmt::format(R"(  - name: envoy-metrics-cluster
    type: STATIC
    connect_timeout: 1s
    circuit_breakers: {{thresholds: [{{max_connections: 2, max_pending_requests: 8}}]}}
    load_assignment:
      cluster_name: envoy-metrics-cluster
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {0}}}}}}}
)",
                     number(kAdminPort));
}

}  // namespace osm::inline v1::inject
