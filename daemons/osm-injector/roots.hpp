// The CA that signs for the mesh, as its controllers agreed: the injector issues with it.
#pragma once

#include <memory>
#include <string>

#include "ca.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/executor.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::injector {

// In the order in which they are made.
struct Roots {
  std::unique_ptr<RotationRecord> record;
  std::unique_ptr<ReplicaBoard> board;  // controllers wait until this replica acts on the record
  std::unique_ptr<RootRotation> rotation;
};

// `waiting` waits for the API server and for CAs, in two threads or more. All that is borrowed
// outlives the roots. Failure: as of daemon::load_ca() and RootRotation::start().
// Thread: any but an event loop's. Blocking: until the CA and the API server have answered.
Result<Roots> start_roots(const daemon::LoadCaOptions& ca, MeshSpec& spec,
                          const std::string& mesh_name, Executor& waiting);

}  // namespace osm::injector
