// What of an earlier specification the newest one still allows: how far a search for a refused
// object may go back without giving anybody what was taken away meanwhile.
#pragma once

#include "model/spec_objects.hpp"

namespace osm::inline v1::nack_provenance {

// `before`, less what `after` does not allow: of an object that both hold, the sources, rules,
// matches and ports that both have; what has nothing left, or is gone from `after`, is left out. A
// TrafficSplit allows nobody anything and stays as it was. In place of a value that says the same
// as the one in `after` stands that one.
model::SpecObjects still_allowed(const model::SpecObjects& before, const model::SpecObjects& after);

// `after`, with permissive mode and egress where both have them, and with TLS as `before` has it,
// but no older version than `after` accepts; tracing and health checks, which allow nobody
// anything, as they were. Whom `after` has requests authorized by stays. Only these settings shape
// proxies.
MeshConfig still_allowed(const MeshConfig& before, const MeshConfig& after);

}  // namespace osm::inline v1::nack_provenance
