// Orders the candidates of a search by how likely each is the cause, to shorten the search. It is a
// guess: a search whose guess is wrong finds its object all the same. Pure.
//
//   1. candidates that other proxies were found to refuse, else the one whose text the proxy's
//      message repeats; no Services: without one, other objects seem to be accepted
//   2. objects that shape any resource of the proxy and are new to it
//   3. objects that shape a Service that the message names: Envoy names the refused listener or
//      cluster, and each belongs to one Service; or to a Service that others refuse, or whose
//      limits they refuse or are new to the proxy
//   4. objects that shape any resource of the proxy
//   5. the others
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

// True if a proxy that refuses the object is served without it (spec::Kind::may_be_left_out).
bool may_be_left_out(const ObjectKey& object);

// The objects that may be left out.
std::set<ObjectKey> that_may_be_left_out(std::set<ObjectKey> objects);

// The objects that shape any resource of the proxy. Empty: the mesh does not have it.
std::set<ObjectKey> shaping(const model::ProxyKey& proxy, const model::MeshSnapshot& mesh);

// The objects whose text the message repeats, or whose name if they are policies.
std::set<ObjectKey> mentioned_in(std::string_view message, const SpecSnapshot& objects);

// Hints for the order of the candidates.
struct Hints {
  std::string_view message;
  std::map<ObjectKey, std::string> found_elsewhere;  // for other proxies, with the evidence
  std::set<ObjectKey> fresh;                         // changed since the proxy accepted its mesh
};

// Moves the likelier candidates to the end, and in each group policies that add to other objects.
// Result: the sizes of the groups 1, 1 to 2, 1 to 3 and 1 to 4, ascending, without empty ones and
// repetitions.
std::vector<std::size_t> order_by_likelihood(const Hints& hints, const model::MeshSnapshot& mesh,
                                             const model::ProxyKey& refusing,
                                             std::vector<ObjectKey>& candidates);

}  // namespace osm::inline v1::nack_provenance
