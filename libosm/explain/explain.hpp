// Explains one call: every decision that the sidecars make about it, with the deciding objects.
// Pure.
//
// The sidecars decide by the resources that `translate` makes. This room reads the same snapshot
// and sees no Envoy, so both must agree: security.oracle compares the two on random policies.
#pragma once

#include <set>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/values/explanation.hpp"

namespace osm::inline v1::explain {

// `accounts`: all that the mesh knows. `left_out`: problems of the mesh's objects. Failure:
// kInvalidArgument (a name or the port), kNotFound (the source). An unknown destination is no
// failure: the call to it is denied.
Result<Explanation> explain(const model::MeshSnapshot& mesh, const CallQuestion& question,
                            const std::set<ServiceIdentity>& accounts,
                            const std::vector<Problem>& left_out);

}  // namespace osm::inline v1::explain
