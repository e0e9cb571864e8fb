// GET /v1/policy/explain: every decision about one call.
#pragma once

#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// Parameters: source, destination, and optionally port, method, path, host, certificate and
// headers (lines of "name: value"), as in CallQuestion.
Result<net::Response> explain_call(const net::AdminApiOptions& options,
                                   const net::Request& request);

}  // namespace osm::inline v1::admin
