// POST /v1/vm/tokens: a token with which one machine joins the mesh.
#pragma once

#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// Failure: kNotFound (machines do not join by token here; no such machine); as JoinTokens::make().
Result<net::Response> vm_token(const net::AdminApiOptions& options, const net::Request& request);

}  // namespace osm::inline v1::admin
