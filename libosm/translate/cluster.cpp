#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "model/ip_address.hpp"
#include "translate/class_view.hpp"
#include "translate/egress.hpp"
#include "translate/global_limits.hpp"
#include "translate/http_manager.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace cluster = envoy::config::cluster::v3;
namespace core = envoy::config::core::v3;

constexpr int kConnectTimeoutSeconds = 5;  // Envoy's own default, made explicit

using HttpProtocolOptions = envoy::extensions::upstreams::http::v3::HttpProtocolOptions;

cluster::Cluster cluster_of(const std::string& name, cluster::Cluster::DiscoveryType type,
                            cluster::Cluster::LbPolicy policy) {
  cluster::Cluster out;
  out.set_name(name);
  out.set_type(type);
  out.set_lb_policy(policy);
  out.mutable_connect_timeout()->set_seconds(kConnectTimeoutSeconds);
  return out;
}

// Lists the only endpoint of a cluster that has no EDS.
void set_endpoint(cluster::Cluster& out, const std::string& address, Port port) {
  auto& endpoint = *out.mutable_load_assignment()->add_endpoints()->add_lb_endpoints();
  auto& at = *endpoint.mutable_endpoint()->mutable_address()->mutable_socket_address();
  at.set_address(address);
  at.set_port_value(number(port));
}

void set_protocol(cluster::Cluster& out, const HttpProtocolOptions& options) {
  (*out.mutable_typed_extension_protocol_options())
      ["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"] = pack_any(options);
}

// Uses the downstream protocol upstream: HTTP/1.1, HTTP/2 and gRPC pass unchanged.
void set_http(cluster::Cluster& out, HttpProtocolOptions options) {
  auto& same = *options.mutable_use_downstream_protocol_config();
  same.mutable_http_protocol_options();
  same.mutable_http2_protocol_options();
  set_protocol(out, options);
}

void set_http(cluster::Cluster& out, const HeaderLimits& headers,
              const ConnectionSettings& limits) {
  HttpProtocolOptions options;
  if (headers != HeaderLimits()) set_header_limits(options, headers);
  if (limits.max_requests_per_connection)
    options.mutable_common_http_protocol_options()
        ->mutable_max_requests_per_connection()
        ->set_value(*limits.max_requests_per_connection);
  set_http(out, std::move(options));
}

// Envoy's default limit of 1024 would cut busy services. Limits are the operator's decision.
void set_limits(cluster::Cluster& out, const ConnectionSettings& limits = {}) {
  constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();
  auto& threshold = *out.mutable_circuit_breakers()->add_thresholds();
  threshold.mutable_max_connections()->set_value(limits.max_connections.value_or(kMax));
  threshold.mutable_max_pending_requests()->set_value(limits.max_pending_requests.value_or(kMax));
  threshold.mutable_max_requests()->set_value(limits.max_requests.value_or(kMax));
  threshold.mutable_max_retries()->set_value(limits.max_retries.value_or(kMax));
  threshold.set_track_remaining(true);
  if (limits.connect_timeout)
    set_milliseconds(*out.mutable_connect_timeout(), limits.connect_timeout->count());
}

// Success rates and failures of gateways alone eject nobody.
void set_outliers(cluster::Cluster& out, const OutlierDetection& limits) {
  auto& detection = *out.mutable_outlier_detection();
  detection.mutable_consecutive_5xx()->set_value(limits.consecutive_5xx);
  set_milliseconds(*detection.mutable_interval(), limits.interval.count());
  set_milliseconds(*detection.mutable_base_ejection_time(), limits.base_ejection_time.count());
  detection.mutable_max_ejection_percent()->set_value(limits.max_ejection_percent);
  detection.mutable_always_eject_one_host()->set_value(limits.max_ejection_percent > 0);
  detection.mutable_enforcing_success_rate()->set_value(0);
  // Envoy's default bound of 5 min would shorten a longer base time.
  set_milliseconds(*detection.mutable_max_ejection_time(),
                   std::max<std::int64_t>(limits.base_ejection_time.count(), 300'000));
}

enum class Reach {
  kAnyEndpoint,      // any of the ClusterLoadAssignment
  kDialledPort,      // the dialled address and port
  kDialledOnTarget,  // the dialled address, at the target port
};

// Health checks ask the proxy of each endpoint. Endpoints that the mesh removes go at
// once, healthy or not.
void set_probes(cluster::Cluster& out, const std::string& fqdn) {
  out.set_ignore_health_on_host_removal(true);
  auto& check = *out.add_health_checks();
  check.mutable_timeout()->set_seconds(1);
  check.mutable_interval()->set_seconds(10);
  check.mutable_unhealthy_threshold()->set_value(3);
  check.mutable_healthy_threshold()->set_value(1);
  auto& http = *check.mutable_http_health_check();
  http.set_host(fqdn);
  http.set_path(kProbePath);
  auto& mark = *http.add_request_headers_to_add();
  mark.mutable_header()->set_key(kProbeHeader);
  mark.mutable_header()->set_value("1");
}

// Cluster of a service for its clients. The same for every client.
struct UpstreamClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "upstream-cluster";

  PeerNames names;
  TlsSettings tls;
  ServiceName service;
  bool http = true;
  std::vector<ServiceIdentity> identities;
  Reach reach = Reach::kAnyEndpoint;
  Port target_port{};   // kDialledOnTarget only
  bool probed = false;  // HTTP and kAnyEndpoint only
  ConnectionSettings limits{};
  PeerKind servers = PeerKind::kEnvoy;
  HeaderLimits headers{};  // HTTP only

  Encoding encode(const std::string& name) const {
    const bool any = reach == Reach::kAnyEndpoint;
    // An ORIGINAL_DST cluster accepts any address: the chains that lead here match endpoints'
    // addresses only.
    auto out =
        any ? cluster_of(name, cluster::Cluster::EDS, cluster::Cluster::ROUND_ROBIN)
            : cluster_of(name, cluster::Cluster::ORIGINAL_DST, cluster::Cluster::CLUSTER_PROVIDED);
    auto references = tls_references();
    if (any) {
      auto& source = *out.mutable_eds_cluster_config()->mutable_eds_config();
      source.mutable_ads();
      source.set_resource_api_version(core::ApiVersion::V3);
      references.push_back({XdsType::kEndpoint, name});
    }
    if (reach == Reach::kDialledOnTarget)
      out.mutable_original_dst_lb_config()->mutable_upstream_port_override()->set_value(
          number(target_port));
    set_limits(out, limits);
    if (http) set_http(out, headers, limits);
    if (any && limits.outliers) set_outliers(out, *limits.outliers);
    if (probed) set_probes(out, service_fqdn(service));
    out.mutable_transport_socket()->set_name(name);
    *out.mutable_transport_socket()->mutable_typed_config() =
        upstream_tls(names, tls, service_fqdn(service), identities, servers);
    return {deterministic_bytes(pack_any(out)), std::move(references)};
  }
};

// Cluster of a workload behind its own proxy.
struct LocalClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "local-cluster";

  Port target_port{};
  bool http = true;
  bool http2_only = false;           // requests in HTTP/1.1 too are sent in HTTP/2
  std::chrono::milliseconds idle{};  // HTTP only: see IdleTimeouts::application
  HeaderLimits headers{};            // HTTP only

  Encoding encode(const std::string& name) const {
    // A literal address needs no resolver.
    auto out = cluster_of(name, cluster::Cluster::STATIC, cluster::Cluster::ROUND_ROBIN);
    set_limits(out);
    if (http || http2_only) {
      HttpProtocolOptions options;
      set_header_limits(options, headers);
      set_milliseconds(*options.mutable_common_http_protocol_options()->mutable_idle_timeout(),
                       idle.count());
      if (http2_only) {
        options.mutable_explicit_http_config()->mutable_http2_protocol_options();
        set_protocol(out, options);
      } else {
        set_http(out, std::move(options));
      }
    }
    out.mutable_load_assignment()->set_cluster_name(name);
    set_endpoint(out, "127.0.0.1", target_port);
    return {deterministic_bytes(pack_any(out)), {}};
  }
};

// Cluster of a server outside the mesh that an object names: plain text, as its protocol.
struct OutsideClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "outside-cluster";

  std::string address;  // empty: no server
  Port port{};
  bool grpc = false;
  bool awaited = grpc;  // requests wait for its answers
  std::optional<std::chrono::milliseconds> connect_timeout{};

  Encoding encode(const std::string& name) const {
    auto out = cluster_of(name, cluster::Cluster::STATIC, cluster::Cluster::ROUND_ROBIN);
    if (!address.empty() && !model::is_ipv4(address) && !model::is_ipv6(address)) set_look_up(out);
    if (grpc) set_grpc(out);
    if (connect_timeout) set_milliseconds(*out.mutable_connect_timeout(), connect_timeout->count());
    out.mutable_load_assignment()->set_cluster_name(name);
    if (!address.empty()) set_endpoint(out, address, port);
    return {deterministic_bytes(pack_any(out)), {}};
  }

  // Requests wait for the look-up of the name of a server that decides about them, and are balanced
  // over its addresses. No request waits for a collector's name.
  void set_look_up(cluster::Cluster& out) const {
    out.set_type(awaited ? cluster::Cluster::STRICT_DNS : cluster::Cluster::LOGICAL_DNS);
    out.set_dns_lookup_family(cluster::Cluster::V4_PREFERRED);
    if (!awaited) out.mutable_wait_for_warm_on_init()->set_value(false);
  }

  // Removes request limits, and detects a server that stopped answering.
  static void set_grpc(cluster::Cluster& out) {
    set_limits(out);
    HttpProtocolOptions options;
    auto& keepalive = *options.mutable_explicit_http_config()
                           ->mutable_http2_protocol_options()
                           ->mutable_connection_keepalive();
    keepalive.mutable_interval()->set_seconds(30);
    keepalive.mutable_timeout()->set_seconds(10);
    set_protocol(out, options);
  }
};

// Cluster of destinations that an Egress or global egress opens.
struct EgressClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "egress-cluster";

  EgressCluster destination;
  HeaderLimits headers;

  Encoding encode(const std::string& name) const {
    const auto& [host, port, limits] = destination;
    auto out =
        host.empty()
            ? cluster_of(name, cluster::Cluster::ORIGINAL_DST, cluster::Cluster::CLUSTER_PROVIDED)
            : cluster_of(name, cluster::Cluster::STRICT_DNS, cluster::Cluster::ROUND_ROBIN);
    // Dots and colons are the separators of statistics.
    std::string stat_name = name;
    std::replace_if(
        stat_name.begin(), stat_name.end(), [](char c) { return c == '.' || c == ':'; }, '_');
    if (stat_name != name) out.set_alt_stat_name(stat_name);
    set_limits(out, limits);
    set_http(out, headers, limits);
    if (!host.empty()) {
      out.set_dns_lookup_family(cluster::Cluster::V4_PREFERRED);
      // A name that no server answers must not delay the sidecar's other configuration.
      out.mutable_wait_for_warm_on_init()->set_value(false);
      out.mutable_load_assignment()->set_cluster_name(name);
      set_endpoint(out, host, port);
      if (limits.outliers) set_outliers(out, *limits.outliers);
    }
    return {deterministic_bytes(pack_any(out)), {}};
  }
};

// Adds the outside servers that the class's connection managers use.
void add_outside_clusters(const ClassView& view, std::vector<InputPtr>& inputs) {
  const ProxySettings& settings = view.snapshot.config.proxy;
  const bool receives = view.receives_http();
  if (const auto tracing = HttpTracing::of(view); tracing && (receives || view.sends_http()))
    inputs.push_back(make_input(
        kTracingCluster,
        OutsideClusterValues{.address = settings.tracing.address,
                             .port = settings.tracing.port,
                             .grpc = tracing->protocol == TracingProtocol::kOpenTelemetry,
                             .awaited = false}));
  if (HttpAuthorizer::of(settings) && receives)
    inputs.push_back(make_input(kAuthorizationCluster,
                                OutsideClusterValues{settings.external_authorization.address,
                                                     settings.external_authorization.port, true}));
  if (view.telemetry && view.telemetry->collector) {
    const auto& [name, server, attributes] = *view.telemetry->collector;
    inputs.push_back(make_input(extension_cluster_name(name),
                                OutsideClusterValues{.address = server.host,
                                                     .port = server.port,
                                                     .grpc = true,
                                                     .awaited = false,
                                                     .connect_timeout = server.connect_timeout}));
  }
}

// Adds the rate-limit servers of the Services that the class serves, and of their apexes.
void add_rate_limit_clusters(const ClassView& view, std::vector<InputPtr>& inputs) {
  const auto add = [&](const RateLimitServer& server) {
    inputs.push_back(make_input(rate_limit_cluster(server),
                                OutsideClusterValues{server.host, server.port, true}));
  };
  for (const ServedPort& served : view.served) {
    if (const auto* limits = view.limits_of(served.port.name); limits && limits->global_tcp)
      add(limits->global_tcp->server);
    if (!is_http(served.port.protocol) && view.ingress_of(served) == nullptr) continue;
    for (const HttpLimiter& limiter : http_limiters(view, served.port.name, served.apexes))
      add(limiter.limit.server);
  }
}

// Ports that share a target port share their clusters. The clusters use HTTP if one of the ports
// does.
void add_upstream_clusters(const ClassView& view, const ClassView::UpstreamService& seen,
                           std::vector<InputPtr>& inputs) {
  const auto& [upstream, entry] = seen;
  const ProxySettings& settings = view.snapshot.config.proxy;
  std::map<std::string, UpstreamClusterValues> clusters;
  const auto add = [&](const std::string& name, const MeshService& port, Reach reach) {
    const UpstreamClusterValues fresh{
        accepted_names(view.snapshot),
        settings.tls,
        entry->name,
        false,
        entry->identities,
        reach,
        {},
        false,
        entry->limits ? entry->limits->connections : ConnectionSettings()};
    auto& values = clusters.try_emplace(name, fresh).first->second;
    values.http |= is_http(port.protocol);
    if (values.http) values.headers = settings.headers;
    if (is_for_grpc_libraries(port)) values.servers = PeerKind::kEnvoyOrGrpc;
    // Only an Envoy answers these health checks.
    values.probed = values.http && reach == Reach::kAnyEndpoint && settings.active_health_checks &&
                    values.servers == PeerKind::kEnvoy;
    if (reach == Reach::kAnyEndpoint || port.port == port.target_port) return;
    values.reach = Reach::kDialledOnTarget;
    values.target_port = port.target_port;
  };
  for (const MeshService& port : entry->ports) {
    add(port.cluster_name().str(), port, Reach::kAnyEndpoint);
    if (!upstream->dialled || !dials_one_pod(*entry, port)) continue;
    for (const DialledPods& pods : dialled_pods(*entry, port))
      add(dialled_cluster_name(*entry, pods.port), pods.port, Reach::kDialledPort);
  }
  for (auto& [name, values] : clusters) inputs.push_back(make_input(name, std::move(values)));
}

}  // namespace

std::vector<InputPtr> cluster_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  for (const auto& seen : view.upstreams) add_upstream_clusters(view, seen, inputs);
  std::map<std::string, LocalClusterValues> local;  // ports may share a target port
  for (const ServedPort& served : view.served) {
    const MeshService& service = served.port;
    if (service.target_port == Port{0}) continue;
    auto& values = local[service.local_cluster_name().str()];
    values.target_port = service.target_port;
    values.http = is_http(service.protocol);
    values.http2_only |= service.protocol == Protocol::kH2c;
    if (!values.http && !values.http2_only) continue;
    values.headers = view.snapshot.config.proxy.headers;
    const auto* limits = view.limits_of(service.name);
    values.idle =
        limits ? limits->idle.application.value_or(kApplicationIdleTime) : kApplicationIdleTime;
  }
  for (const auto& [name, values] : local) inputs.push_back(make_input(name, values));
  add_outside_clusters(view, inputs);
  add_rate_limit_clusters(view, inputs);
  EgressPlan plan = egress_plan(view);
  for (auto& [name, destination] : plan.clusters)
    inputs.push_back(make_input(
        name, EgressClusterValues{std::move(destination), view.snapshot.config.proxy.headers}));
  return inputs;
}

}  // namespace osm::inline v1::translate
