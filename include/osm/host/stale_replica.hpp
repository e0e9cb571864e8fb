// Keeps proxies away from a stale replica: one that has had no proof for too long that it reaches
// the server of the mesh's objects. While another replica answers that it is not stale and admits
// proxies, a stale one refuses them. If none does, it serves what it knows.
//
//   auto guard = host::StaleReplicaGuard::start(
//       {.board = board.get(), .replica = backend.replica, .runtime = runtime});
//   ControlPlane::start({..., .admits = [&] { return (*guard)->admits(); }});
//   (*guard)->announce({"10.0.0.7", 9091});  // where host::Health serves /version
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/net/address.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::host {

// Lifetime: the board and the runtime outlive the guard.
struct StaleReplicaOptions {
  ReplicaBoard* board;  // null: there are no other replicas, and this one is never stale
  std::string replica;  // its name on the board
  OwnRuntime& runtime;  // the others are asked on a lane of its own
  // Time without a proof after which this replica is stale; at least StaleReplicaGuard::kLeast.
  std::chrono::seconds stale_after{30};
};

// It reads the board, publishes the address at which the others reach this replica's /version, and
// asks theirs while this replica is stale. The others have to be asked directly, because a replica
// that is cut off reads no board.
class OSM_API StaleReplicaGuard {
 public:
  static constexpr std::chrono::seconds kLeast{15};

  // Blocking: for a question to another replica, a second.
  virtual ~StaleReplicaGuard() = default;

  // Failure: kInvalidArgument: stale_after. Thread: any. Blocking: no.
  static Result<std::unique_ptr<StaleReplicaGuard>> start(const StaleReplicaOptions& options);

  // Tells the other replicas where to ask this one. Without it, none does. Thread: any.
  // Blocking: no.
  virtual void announce(const net::Address& address) = 0;

  // MeshVersion::stale. Thread: any. Blocking: no.
  virtual bool stale() const = 0;

  // ControlPlaneOptions::admits; also a reason not to be ready. Failure: kUnavailable: stale, and
  // another replica admits proxies and is not; with the cause, for operators. Thread: any.
  // Blocking: no.
  virtual Status admits() const = 0;
};

}  // namespace osm::inline v1::host
