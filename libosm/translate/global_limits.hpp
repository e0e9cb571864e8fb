// Rate limits that a server outside of the mesh counts, in one server's sidecar.
//
// A connection manager has one filter for each Service whose requests it receives and that has such
// a limit: filters that ask the server of one Service must not count the requests to another. The
// filter is off until the virtual host of its Service turns it on. Descriptors are in virtual hosts
// and routes, so that a change of them drains no connection.
#pragma once

#include <google/protobuf/any.pb.h>

#include <string>
#include <vector>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "envoy/config/route/v3/route_components.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "osm/values/upstream_traffic_setting.hpp"
#include "translate/class_view.hpp"
#include "translate/input.hpp"

namespace osm::inline v1::translate {

struct HttpLimiter {
  ServiceName service;  // its requests are counted
  HttpGlobalRateLimit limit;
};

// The limiters of requests that name the Service or an apex. Ordered.
std::vector<HttpLimiter> http_limiters(const ClassView& view, const ServiceName& service,
                                       const std::vector<ServiceName>& apexes);

// Name of the server's cluster: "rate-limit|<host>|<port>".
std::string rate_limit_cluster(const RateLimitServer& server);

// Asks about each new connection.
envoy::config::listener::v3::Filter connection_limiter(const std::string& stat_prefix,
                                                       const TcpGlobalRateLimit& limit);

// Adds the filter, which is off.
void add_limiter(
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager&
        manager,
    const HttpLimiter& limiter);

// Adds the clusters of their servers.
void add_references(const std::vector<HttpLimiter>& limiters, Encoding& encoding);

// Turns the Service's filter on.
void enable_limiter(envoy::config::route::v3::VirtualHost& host, const ServiceName& service);
envoy::config::route::v3::RateLimit rate_limit_of(const RateLimitDescriptor& descriptor);

}  // namespace osm::inline v1::translate
