// Explains if one account may call another, and the reason. Pure.
#pragma once

#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1::explain {

// The grant of a policy as text: "GET,POST /books.* on port 80; TCP port 80".
std::string describe_grant(const InboundTrafficPolicy& policy);

// One TrafficTarget between one source and its destination, with the services that both run.
TrafficPolicy traffic_policy(const model::TargetEntry& target, const ServiceIdentity& source,
                             std::vector<ServiceName> source_services,
                             std::vector<ServiceName> destination_services);

// `left_out`: problems of the mesh specification. A denial quotes those of TrafficTargets in the
// destination's namespace, since the intended target may be among them.
PolicyDecision check_policy(const model::MeshSnapshot& snapshot, const ServiceIdentity& source,
                            const ServiceIdentity& destination,
                            const std::vector<Problem>& left_out);

}  // namespace osm::inline v1::explain
