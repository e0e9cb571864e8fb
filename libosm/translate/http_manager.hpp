// The HTTP connection managers of mesh chains. They carry no policy, so that no change of policy
// drains a connection: authorization travels with the routes.
#pragma once

#include <string>

#include "envoy/config/listener/v3/listener_components.pb.h"

namespace osm::translate {

// Routes override this filter by its name.
inline constexpr const char* kHttpRbacFilter = "http_rbac";

envoy::config::listener::v3::Filter outbound_http_manager(const std::string& route_name);
envoy::config::listener::v3::Filter inbound_http_manager(const std::string& route_name);

}  // namespace osm::translate
