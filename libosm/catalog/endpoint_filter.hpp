// Endpoints that exist, and that clients are not to know yet.
#pragma once

#include <algorithm>
#include <set>
#include <tuple>

#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::catalog {

// Thread: the builder's strand.
class EndpointFilter {
 public:
  virtual ~EndpointFilter() = default;

  // A build has come to its endpoints: `next` has the Services and workloads of the next
  // generation, and the changes of these. `first`: nothing has been published before. Result: the
  // Services whose endpoints are filtered again, though they have not changed.
  // Lifetime: `next` lives until the last filter() of this build.
  virtual std::set<ServiceName> begin(const model::MeshSnapshot& next, bool first) = 0;

  // Takes out of `endpoints`, all those of a Service, what its clients are not to know yet, and
  // puts in what they know of the same workloads. `known`: what they know; null: nothing.
  virtual void filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints* known) = 0;
};

// True if clients that know `known` send to the address and port of `endpoint`.
inline bool has_place_of(const model::ServiceEndpoints& known, const Endpoint& endpoint) {
  const auto place = [](const Endpoint& one) { return std::tie(one.address, one.port); };
  const auto at =
      std::lower_bound(known.endpoints.begin(), known.endpoints.end(), endpoint,
                       [&](const Endpoint& a, const Endpoint& b) { return place(a) < place(b); });
  return at != known.endpoints.end() && place(*at) == place(endpoint);
}

}  // namespace osm::inline v1::catalog
