// Propagation status of an object: its progress on the way to the proxies that it concerns.
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

// Phase of an object's newest version.
enum class ObjectPhase {
  // Left out: the object is invalid, its namespace is not in the mesh, or nothing of it has an
  // effect (a flag is off, another object comes first, all that it names is missing); see
  // `problems`.
  kRejected,
  kPending,  // the change is not read yet, or some concerned proxies have not applied it
  // Some proxies refuse the object and are served without it, or they refused the newest
  // configuration and keep an older one. The others have applied it.
  kRefused,
  kApplied,  // every concerned and connected proxy has applied it
};
// "Rejected", "Pending", "Refused", "Applied".
OSM_API std::string_view object_phase_text(ObjectPhase phase);

// A connected proxy that the object concerns and that has not applied it yet, or refuses it.
struct ProxyLag {
  ProxyId proxy;
  WorkloadName workload;
  bool refused = false;
  std::string detail;  // Envoy's message if it refused
};

// The receipt of one object, over the proxies of all replicas that share a ReplicaBoard.
struct ObjectStatus {
  ObjectKey object;
  // The first generation of the mesh (counted per replica) that holds the present version of the
  // object, or that no longer holds the object. 0: no generation does yet.
  std::uint64_t generation = 0;
  bool removed = false;  // not in the mesh: deleted lately, or rejected
  ObjectPhase phase = ObjectPhase::kPending;
  // Number of connected proxies whose configuration depends on the object, or did so before its
  // change.
  std::size_t concerned = 0;
  std::size_t applied = 0;  // number of these that acknowledged this generation or a later one
  std::vector<ProxyLag> lagging;            // the rest, ordered by workload
  std::vector<WorkloadName> not_connected;  // concerned workloads without a proxy, ordered
  std::vector<Problem> problems;            // problems of this object, ordered
  // Number of replicas that live, this one included.
  std::size_t replicas = 1;
  // Other replicas whose mesh is not this one's for the proxies that the object concerns, or that
  // have not reported yet. While there are some, the object is not kApplied. Ordered.
  std::vector<std::string> replicas_behind{};
  // Other replicas that cannot say: of another version, silent for 30 s, or with more proxies than
  // their report holds. Nobody waits for them. Ordered.
  std::vector<std::string> replicas_unknown{};
  // False: it is not known which replicas live, since the board cannot be read. Until it can, the
  // object is not kApplied.
  bool replicas_known = true;
};

}  // namespace osm::inline v1
