// "Is this change live?": how far one object of the mesh has travelled to the proxies it concerns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1 {

// How far an object's newest version has come.
enum class ObjectPhase {
  kRejected,  // left out: it is invalid, or a proxy refused it; see `problems`
  kPending,   // its change is not read yet, or some proxies that it concerns have not applied it
  kRefused,   // some keep older configuration, because they refused the newest
  kApplied,   // every connected proxy that it concerns has applied it
};
// "Rejected", "Pending", "Refused", "Applied".
OSM_API std::string_view object_phase_text(ObjectPhase phase);

// A connected proxy that is concerned and has not applied the object yet.
struct ProxyLag {
  ProxyId proxy;
  WorkloadName workload;
  bool refused = false;
  std::string detail;  // Envoy's words when it refused
};

// The receipt of one object, as this replica knows it.
struct ObjectStatus {
  ObjectKey object;
  // The first generation of the mesh, as this replica counts them, that holds the object as it is,
  // or holds it no more. 0: none does yet.
  std::uint64_t generation = 0;
  bool removed = false;  // it is not in the mesh: deleted lately, or rejected
  ObjectPhase phase = ObjectPhase::kPending;
  // Connected proxies whose configuration the object can shape, or could before it changed.
  std::size_t concerned = 0;
  std::size_t applied = 0;        // of these, those that acknowledged this generation or a later
  std::vector<ProxyLag> lagging;  // the rest, ordered by workload
  std::vector<WorkloadName> not_connected;  // concerned workloads without a proxy here, ordered
  std::vector<Problem> problems;            // of this object, ordered
};

}  // namespace osm::inline v1
