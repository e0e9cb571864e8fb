// Gives Services the limits that UpstreamTrafficSettings set. Pure.
#pragma once

#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Sets the limits of `services`, which are ordered by name. `policies`: ordered by key; of several
// settings of one Service the first counts. Result: settings without effect, in full or in part:
// another one counts, the host is no Service of its namespace and no Egress names the setting, the
// Service is missing, it has no HTTP port to limit requests on, or it is an apex, which has no
// connections of its own. Also local limits by the hour, which are no quotas.
std::vector<Problem> resolve_limits(const Table<Policy>& policies,
                                    std::vector<model::ServiceEntry>& services);

}  // namespace osm::inline v1::catalog
