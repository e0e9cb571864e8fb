// Limits of the traffic to one Service in its servers' sidecars. Chains and routes obey them alike
// for calls of the mesh and for ingress.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "envoy/config/route/v3/route_components.pb.h"
#include "osm/values/upstream_traffic_setting.hpp"
#include "translate/class_view.hpp"
#include "translate/input.hpp"

namespace osm::inline v1::translate {

// Time without a byte in either direction, after which a stream or a connection is cut. 0: never;
// nullopt: Envoy's own, 5 min for a stream and 1 h for a TCP connection.
using IdleTime = std::optional<std::chrono::milliseconds>;

// Idle time of a stream to the service. A silent gRPC stream is usual: it waits for events.
IdleTime idle_time(const UpstreamLimits* limits, Protocol protocol);
void set_idle_time(envoy::config::route::v3::RouteAction& action, const IdleTime& idle);

// Limits of the connections to one Service.
struct ConnectionLimits {
  std::optional<LocalRateLimit> local;
  std::optional<TcpGlobalRateLimit> global;

  static ConnectionLimits of(const ClassView& view, const ServiceName& service);
  // Adds the filters, which must come before the filter that ends the chain.
  void add_to(envoy::config::listener::v3::FilterChain& chain, Encoding& encoding) const;
};

// Limits of the requests to one Service.
struct RequestLimits {
  ServiceName service;
  std::optional<HttpLocalRateLimit> local;
  std::vector<HttpRouteRateLimit> paths;
  bool counted = false;  // by a rate-limit server
  std::vector<RateLimitDescriptor> descriptors;
  IdleTime idle;

  static RequestLimits of(const ClassView& view, const ServiceName& service, Protocol protocol);
  // Limits all routes of the host.
  void add_to(envoy::config::route::v3::VirtualHost& host) const;
  // Replaces these limits by the path's own on its route.
  void replace_on(envoy::config::route::v3::Route& route, const HttpRouteRateLimit& path) const;
};

}  // namespace osm::inline v1::translate
