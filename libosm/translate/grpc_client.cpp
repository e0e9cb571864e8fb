#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/filters/http/router/v3/router.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "model/cluster_names.hpp"
#include "translate/grpc.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"
#include "translate/tls.hpp"

namespace osm::inline v1::translate {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;
using envoy::config::cluster::v3::Cluster;
using envoy::config::listener::v3::Listener;
using envoy::config::route::v3::RouteConfiguration;
namespace grpc_core = envoy::config::core::v3;

constexpr std::uint32_t kNoRoute = 503;

void set_ads(grpc_core::ConfigSource& source) {
  source.mutable_ads();
  source.set_resource_api_version(grpc_core::ApiVersion::V3);
}

// The listener of one dialled name and port.
struct GrpcClientListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "grpc-client-listener";

  std::string routes;

  Encoding encode(const std::string& name) const {
    hcm::HttpConnectionManager manager;
    manager.mutable_rds()->set_route_config_name(routes);
    set_ads(*manager.mutable_rds()->mutable_config_source());
    set_extension(*manager.add_http_filters(), "http_router",
                  envoy::extensions::filters::http::router::v3::Router());
    Listener out;
    out.set_name(name);
    *out.mutable_api_listener()->mutable_api_listener() = pack_any(manager);
    return {deterministic_bytes(pack_any(out)), {{XdsType::kRoute, routes}}};
  }
};

// The routes of one Service port. The dialled name selected them, so they are for any host.
struct GrpcRouteValues {
  static constexpr XdsType kType = XdsType::kRoute;
  static constexpr std::string_view kKind = "grpc-routes";

  std::vector<Destination> destinations;  // ordered; empty: the service cannot be reached
  std::string retry_on;                   // empty: no retries
  std::uint32_t retries = 0;
  std::int64_t back_off = 0;  // milliseconds; 0: gRPC's own

  Encoding encode(const std::string& name) const {
    RouteConfiguration configuration;
    configuration.set_name(name);
    auto& host = *configuration.add_virtual_hosts();
    host.set_name("grpc_virtual-host|*");
    host.add_domains("*");
    auto& route = *host.add_routes();
    route.mutable_match()->set_prefix("/");
    Encoding encoding;
    if (destinations.empty()) {
      route.mutable_direct_response()->set_status(kNoRoute);  // gRPC fails the calls: UNAVAILABLE
    } else {
      set_action(*route.mutable_route());
    }
    for (const Destination& destination : destinations)
      encoding.references.push_back({XdsType::kCluster, destination.cluster});
    encoding.any = deterministic_bytes(pack_any(configuration));
    return encoding;
  }

  void set_action(envoy::config::route::v3::RouteAction& action) const {
    if (destinations.size() == 1) {
      action.set_cluster(destinations.front().cluster);
    } else {
      for (const Destination& destination : destinations) {
        auto& weighted = *action.mutable_weighted_clusters()->add_clusters();
        weighted.set_name(destination.cluster);
        weighted.mutable_weight()->set_value(destination.weight);
      }
    }
    if (retry_on.empty()) return;
    auto& policy = *action.mutable_retry_policy();
    policy.set_retry_on(retry_on);
    policy.mutable_num_retries()->set_value(retries);
    if (back_off > 0)
      set_milliseconds(*policy.mutable_retry_back_off()->mutable_base_interval(), back_off);
  }

  // gRPC refuses a policy without retries, and knows only conditions that are status codes.
  void set_retries(const RetryPolicy* policy) {
    if (policy == nullptr || policy->num_retries == 0) return;
    retry_on = policy->retry_on;
    retries = policy->num_retries;
    back_off = policy->back_off_base_interval.count();
  }
};

struct GrpcClusterValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "grpc-cluster";

  PeerNames names;
  std::vector<ServiceIdentity> identities;
  std::optional<std::uint32_t> max_requests;

  Encoding encode(const std::string& name) const {
    Cluster out;
    out.set_name(name);
    out.set_type(Cluster::EDS);
    set_ads(*out.mutable_eds_cluster_config()->mutable_eds_config());
    out.set_lb_policy(Cluster::ROUND_ROBIN);
    // The default of 1024 would cut busy services, as Envoy's would.
    out.mutable_circuit_breakers()->add_thresholds()->mutable_max_requests()->set_value(
        max_requests.value_or(std::numeric_limits<std::uint32_t>::max()));
    out.mutable_transport_socket()->set_name(kGrpcTransportSocket);
    *out.mutable_transport_socket()->mutable_typed_config() = grpc_upstream_tls(names, identities);
    return {deterministic_bytes(pack_any(out)), {{XdsType::kEndpoint, name}}};
  }
};

// Calls `visit(entry, port)` for each port that the class's applications may dial.
template <class Visit>
void for_each_dialled(const ClassView& view, Visit visit) {
  for (const auto& [upstream, entry] : view.upstreams) {
    if (!upstream->dialled) continue;
    for (const MeshService& port : entry->ports)
      if (is_for_grpc_libraries(port)) visit(*entry, port);
  }
}

}  // namespace

std::vector<InputPtr> grpc_cluster_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  for (const auto& [upstream, entry] : view.upstreams)
    for (const MeshService& port : entry->ports)
      if (is_for_grpc_libraries(port))
        inputs.push_back(
            make_input(port.cluster_name().str(),
                       GrpcClusterValues{accepted_names(view.snapshot), entry->identities,
                                         entry->limits ? entry->limits->connections.max_requests
                                                       : std::nullopt}));
  return inputs;
}

std::vector<InputPtr> grpc_route_inputs(const ClassView& view) {
  std::vector<InputPtr> inputs;
  for_each_dialled(view, [&](const model::ServiceEntry& entry, const MeshService& port) {
    GrpcRouteValues values;
    values.destinations = destinations_of(view, entry, port);
    // A backend whose port is not for gRPC libraries has no cluster here.
    std::erase_if(values.destinations, [&](const Destination& destination) {
      return std::none_of(view.upstreams.begin(), view.upstreams.end(), [&](const auto& seen) {
        const auto& ports = seen.entry->ports;
        return std::any_of(ports.begin(), ports.end(), [&](const MeshService& candidate) {
          return is_for_grpc_libraries(candidate) &&
                 candidate.cluster_name().str() == destination.cluster;
        });
      });
    });
    if (values.destinations.size() == 1) values.destinations.front().weight = 0;
    values.set_retries(view.retry_of(entry.name));
    inputs.push_back(make_input(outbound_route_name(entry, port), std::move(values)));
  });
  return inputs;
}

void add_grpc_client_listeners(const ClassView& view, std::vector<InputPtr>& inputs) {
  for_each_dialled(view, [&](const model::ServiceEntry& entry, const MeshService& port) {
    const bool short_name = entry.name.ns == view.proxy_class.identity.ns;
    for (const std::string& host :
         model::host_names(entry.name, short_name, view.snapshot.config.proxy.cluster_domain))
      inputs.push_back(make_input(host + ':' + std::to_string(number(port.port)),
                                  GrpcClientListenerValues{outbound_route_name(entry, port)}));
  });
}

}  // namespace osm::inline v1::translate
