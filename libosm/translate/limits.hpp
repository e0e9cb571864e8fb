// Rate limits of one server's sidecar, as Envoy's local rate limit filters have them.
#pragma once

#include <google/protobuf/any.pb.h>

#include <string>

#include "envoy/config/listener/v3/listener_components.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "osm/values/upstream_traffic_setting.hpp"

namespace osm::inline v1::translate {

// Routes override this filter by its name.
inline constexpr const char* kHttpRateLimitFilter = "http_local_rate_limit";

// Closes the connections above the rate. A chain that replaces another one of the name, whose
// limit is the same, goes on with its bucket while Envoy drains that one.
envoy::config::listener::v3::Filter connection_rate_limit(const std::string& chain,
                                                          const LocalRateLimit& limit);

// A filter that limits nothing until a virtual host or a route overrides it: a limit that is added
// later changes no listener, so it drains no connection.
void add_open_rate_limit(
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager&
        manager);

// Overrides of that filter. Each copy of a limit has a bucket of its own.
google::protobuf::Any request_rate_limit(const HttpLocalRateLimit& limit);
google::protobuf::Any no_rate_limit();

}  // namespace osm::inline v1::translate
