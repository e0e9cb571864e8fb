#include <limits>
#include <map>
#include <tuple>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/extensions/upstreams/http/v3/http_protocol_options.pb.h"
#include "translate/class_view.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"
#include "translate/tls.hpp"

namespace osm::translate {
namespace {

namespace cluster = envoy::config::cluster::v3;
namespace core = envoy::config::core::v3;

constexpr int kConnectTimeoutSeconds = 5;  // Envoy's own default, written down

void set_http(cluster::Cluster& out) {
  // The upstream speaks what the downstream spoke: HTTP/1.1, HTTP/2 and gRPC pass as they are.
  envoy::extensions::upstreams::http::v3::HttpProtocolOptions options;
  auto& same = *options.mutable_use_downstream_protocol_config();
  same.mutable_http_protocol_options();
  same.mutable_http2_protocol_options();
  (*out.mutable_typed_extension_protocol_options())
      ["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"] = pack_any(options);
}

// Envoy's default of 1024 would cut busy services; limits are an operator's decision.
void set_no_limits(cluster::Cluster& out) {
  constexpr auto kMax = std::numeric_limits<std::uint32_t>::max();
  auto& threshold = *out.mutable_circuit_breakers()->add_thresholds();
  threshold.mutable_max_connections()->set_value(kMax);
  threshold.mutable_max_pending_requests()->set_value(kMax);
  threshold.mutable_max_requests()->set_value(kMax);
  threshold.mutable_max_retries()->set_value(kMax);
  threshold.set_track_remaining(true);
}

// A service as its clients reach it. The same for every client.
struct UpstreamClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "upstream-cluster";

  TrustDomain domain;
  ServiceName service;
  bool http = true;
  std::vector<ServiceIdentity> identities;

  auto fields() const { return std::tie(domain, service, http, identities); }

  Encoding encode(const std::string& name) const {
    cluster::Cluster out;
    out.set_name(name);
    out.set_type(cluster::Cluster::EDS);
    auto& source = *out.mutable_eds_cluster_config()->mutable_eds_config();
    source.mutable_ads();
    source.set_resource_api_version(core::ApiVersion::V3);
    out.set_lb_policy(cluster::Cluster::ROUND_ROBIN);
    out.mutable_connect_timeout()->set_seconds(kConnectTimeoutSeconds);
    set_no_limits(out);
    if (http) set_http(out);
    out.mutable_transport_socket()->set_name(name);
    *out.mutable_transport_socket()->mutable_typed_config() =
        upstream_tls(domain, service_fqdn(service), identities);

    auto references = tls_references();
    references.push_back({XdsType::kEndpoint, name});
    return {deterministic_bytes(pack_any(out)), std::move(references)};
  }
};

// The workload behind its own proxy.
struct LocalClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "local-cluster";

  Port target_port{};
  bool http = true;

  auto fields() const { return std::tie(target_port, http); }

  Encoding encode(const std::string& name) const {
    cluster::Cluster out;
    out.set_name(name);
    out.set_type(cluster::Cluster::STATIC);  // a literal address needs no resolver
    out.set_lb_policy(cluster::Cluster::ROUND_ROBIN);
    out.mutable_connect_timeout()->set_seconds(kConnectTimeoutSeconds);
    set_no_limits(out);
    if (http) set_http(out);
    auto& assignment = *out.mutable_load_assignment();
    assignment.set_cluster_name(name);
    auto& address = *assignment.add_endpoints()
                         ->add_lb_endpoints()
                         ->mutable_endpoint()
                         ->mutable_address()
                         ->mutable_socket_address();
    address.set_address("127.0.0.1");
    address.set_port_value(number(target_port));
    return {deterministic_bytes(pack_any(out)), {}};
  }
};

// What no chain knows goes where it was going (egress).
struct PassthroughClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "passthrough-cluster";

  auto fields() const { return std::tuple<>(); }

  Encoding encode(const std::string& name) const {
    cluster::Cluster out;
    out.set_name(name);
    out.set_type(cluster::Cluster::ORIGINAL_DST);
    out.set_lb_policy(cluster::Cluster::CLUSTER_PROVIDED);
    out.mutable_connect_timeout()->set_seconds(kConnectTimeoutSeconds);
    set_no_limits(out);
    return {deterministic_bytes(pack_any(out)), {}};
  }
};

}  // namespace

std::vector<InputPtr> cluster_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  for (const auto& [upstream, entry] : view.upstreams) {
    // Ports that share a target port share the cluster, which speaks HTTP if one of them does.
    std::map<ClusterName, bool> http;
    for (const MeshService& port : entry->ports)
      http[port.cluster_name()] |= is_http(port.protocol);
    for (const auto& [name, speaks_http] : http)
      inputs.push_back(
          make_input(name.str(), UpstreamClusterValues{view.snapshot.trust_domain, entry->name,
                                                       speaks_http, entry->identities}));
  }
  for (const auto& [service] : view.proxy_class.own_ports) {
    if (service.target_port == Port{0}) continue;
    inputs.push_back(
        make_input(service.local_cluster_name().str(),
                   LocalClusterValues{service.target_port, is_http(service.protocol)}));
  }
  if (view.snapshot.config.egress)
    inputs.push_back(make_input(kPassthroughCluster, PassthroughClusterValues{}));
  return inputs;
}

}  // namespace osm::translate
