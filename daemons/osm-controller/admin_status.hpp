// GET /v1/status: how far one object has travelled.
#pragma once

#include "osm/control_plane.hpp"
#include "osm/net/http.hpp"
#include "osm/object_store.hpp"

namespace osm::controller {

// The store is made to read what was written before the request, so that an answer never speaks of
// the object's version before. Blocking: briefly.
net::Response object_status(const ControlPlane& control_plane, ObjectStore& store,
                            const net::Request& request);

}  // namespace osm::controller
