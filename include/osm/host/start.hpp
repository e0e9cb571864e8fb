// The start of a program that runs a mesh: its name among the replicas, and the level of its log.
#pragma once

#include <string>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::host {

// This host's name, which in a pod is the pod's. Empty: unknown. Thread: any. Blocking: no.
OSM_API std::string host_name();

// The name by which the replicas of a program know each other: Backend::replica. Result: a name
// that no other replica has, nor this one before a restart: the host's name, which is the pod's,
// and a random number. Thread: any. Blocking: no.
OSM_API std::string replica_name(Rng& rng);

// Logs from the level on that MeshConfig says, else from `otherwise` on. Result: the handle of the
// subscription. Lifetime: both outlive the handle. Thread: any. Blocking: no.
OSM_API Subscription follow_log_level(MeshSpec& spec, net::JsonLog& log, LogLevel otherwise);

}  // namespace osm::inline v1::host
