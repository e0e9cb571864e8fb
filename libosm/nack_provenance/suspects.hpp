// Orders the candidates of a search by how likely each is the cause, to shorten the search. It is a
// guess: a search whose guess is wrong finds its object all the same. Pure.
//
//   1. candidates that other proxies were found to refuse, else the one whose text the proxy's
//      message repeats; no Services: without one, other objects seem to be accepted
//   2. contributors to any resource of the proxy that are new to it
//   3. contributors to a Service that the message names: Envoy names the refused listener or
//      cluster, and each belongs to one Service; or to one that a hint names
//   4. contributors to any resource of the proxy
//   5. the others
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::nack_provenance {

// True if a proxy that refuses the object is served without it (spec::Kind::may_be_left_out).
bool may_be_left_out(const ObjectKey& object);

// The objects of a mesh for which that is so, and the others. A MeshConfig is neither.
std::pair<std::vector<ObjectKey>, std::set<ObjectKey>> sorted_out(
    const model::SpecObjects& objects);

// The objects that shape the workload's way to these services, or its own serving of them:
// Services, splits, targets with their routes, and policies.
std::set<ObjectKey> contributors(const model::MeshSnapshot& mesh, const ServiceIdentity& identity,
                                 const std::set<ServiceName>& services);

// The objects that shape any resource of the workload's proxy. Empty: the mesh does not have it.
std::set<ObjectKey> contributors(const model::MeshSnapshot& mesh, const WorkloadName& workload);

// True if the message repeats text of the object, or its name if it is a policy.
bool mentions(std::string_view message, const model::MeshSnapshot& mesh, const ObjectKey& object);

// Hints for the order of the candidates.
struct Hints {
  std::string_view message;
  std::map<ObjectKey, std::string> found_elsewhere;  // for other proxies, with the evidence
  std::set<ObjectKey> fresh;                         // changed since the proxy accepted its mesh
  std::set<ServiceName> services{};                  // that the cause may belong to
};

// Moves the likelier candidates to the end, and in each group policies that add to other objects.
// Result: the sizes of the groups 1, 1 to 2, 1 to 3 and 1 to 4, ascending, without empty ones and
// repetitions.
std::vector<std::size_t> order_by_likelihood(const Hints& hints, const model::MeshSnapshot& mesh,
                                             const WorkloadName& refusing,
                                             std::vector<ObjectKey>& candidates);

}  // namespace osm::inline v1::nack_provenance
