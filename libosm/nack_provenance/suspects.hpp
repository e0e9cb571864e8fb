// Orders the candidates of a search by how likely each is the cause, to shorten the search. It is a
// guess: a search whose guess is wrong finds its object all the same. Pure.
//
//   1. candidates that other replicas found to be refused, else the one whose text the proxy's
//      message repeats
//   2. contributors to a Service that the message names: Envoy names the refused listener or
//      cluster, and each belongs to one Service
//   3. contributors to any resource of the proxy
//   4. the others
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::nack_provenance {

// The objects that shape the workload's way to these services, or its own serving of them:
// Services, splits, targets with their routes, and policies.
std::set<ObjectKey> contributors(const model::MeshSnapshot& mesh, const ServiceIdentity& identity,
                                 const std::set<ServiceName>& services);

// Moves the likelier candidates to the end, and in each group policies that add to other objects. A
// MeshConfig stays at the beginning, since the others are tried under it. Result: the sizes of the
// groups 1, 1 to 2, and 1 to 3, ascending, without empty ones and repetitions. `found_elsewhere`:
// by other replicas, with their evidence.
std::vector<std::size_t> order_by_likelihood(
    std::string_view message, const model::MeshSnapshot& mesh, const WorkloadName& refusing,
    const std::map<ObjectKey, std::string>& found_elsewhere, std::vector<ObjectKey>& candidates);

}  // namespace osm::inline v1::nack_provenance
