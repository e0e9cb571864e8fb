// Endpoints, permissions and the permissive mode that exist in the mesh, and that its clients are
// not told yet.
#pragma once

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::catalog {

// Thread: the builder's strand.
class Announcements {
 public:
  virtual ~Announcements() = default;

  // A build filters these again, though they have not changed.
  struct Due {
    std::set<ServiceName> services;     // their endpoints
    std::set<ServiceIdentity> clients;  // their upstreams
    bool smi_upstreams = false;         // MeshSnapshot::smi_upstreams, if the mesh is permissive
  };

  // A build has come to its permissions: `next` has the settings, Services and workloads of the
  // next generation, and the changes of these. `first`: nothing has been published before.
  // Lifetime: `next` lives until the last call of another function; builds change it.
  virtual Due begin(const model::MeshSnapshot& next, bool first) = 0;

  // Takes out of the upstreams of `policies`, which may differ from those of `next`, the servers
  // that their clients are not to know yet. Clients of Due that are not among them have none.
  virtual void filter(std::vector<model::IdentityPolicy>& policies) = 0;

  // Takes out of `endpoints`, all those of a Service, what its clients are not to know yet, and
  // puts in what they know of the same workloads. `known`: what they know; null: nothing. After the
  // policies of `next` are those of the next generation.
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
