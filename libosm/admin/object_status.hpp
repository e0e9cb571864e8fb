// GET /v1/status: how far one object has travelled.
#pragma once

#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// The store is made to read what was written before the request, so that an answer never speaks of
// the object's version before. Blocking: briefly.
net::Response object_status(const net::AdminApiOptions& options, const net::Request& request);

}  // namespace osm::inline v1::admin
