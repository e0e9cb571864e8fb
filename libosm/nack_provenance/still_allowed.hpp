// The part of an earlier specification that the newest one still allows. A search for a refused
// object goes back no further, so that a trial allows nobody anything that was taken away since.
#pragma once

#include "model/spec_objects.hpp"

namespace osm::inline v1::nack_provenance {

// The policies that only forbid: no trial is without one that is in force.
SharedList<Policy> denylists(const model::SpecObjects& objects);

// `before` without the parts that `after` does not allow. An object that both hold keeps the
// sources, rules, matches and ports that both have; an object that has none left, or is not in
// `after`, is left out. Denylists are those of `after`. A TrafficSplit allows nothing and stays as
// it was. Equal objects reuse the pointer of `after`.
model::SpecObjects still_allowed(const model::SpecObjects& before, const model::SpecObjects& after);

// `after`, with permissive mode, egress and Egress objects only if both have them, and with the TLS
// settings of `before`, but no older version than `after` accepts. Tracing and health checks allow
// nothing and are those of `before`. External authorization is that of `after`. Other settings do
// not shape proxies.
MeshConfig still_allowed(const MeshConfig& before, const MeshConfig& after);

}  // namespace osm::inline v1::nack_provenance
