// "May this account call that one, and why?" in words. Pure.
#pragma once

#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1::catalog {

// What a policy grants, in words: "GET,POST /books.*; TCP port 3306".
std::string describe_grant(const InboundTrafficPolicy& policy);

// One TrafficTarget between one source and its destination, with the services both run.
TrafficPolicy traffic_policy(const model::MeshSnapshot& snapshot, const model::TargetEntry& target,
                             const ServiceIdentity& source);

// `left_out`: problems of the mesh specification; those of TrafficTargets beside the destination
// are quoted in a refusal, since the object that was meant to allow may be among them.
PolicyDecision check_policy(const model::MeshSnapshot& snapshot, const ServiceIdentity& source,
                            const ServiceIdentity& destination,
                            const std::vector<Problem>& left_out);

}  // namespace osm::inline v1::catalog
