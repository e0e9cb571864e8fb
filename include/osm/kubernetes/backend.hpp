// A mesh on Kubernetes: objects, records in ConfigMaps, CAs in Secrets, a board of Leases.
//
//   auto backend = kubernetes::make_backend({.board = {.cluster = **cluster, ...}, ...});
#pragma once

#include "osm/detail/api.hpp"
#include "osm/kubernetes/upkeep.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

// The places in a cluster. Everything borrowed outlives the backend.
struct BackendOptions {
  ReplicaBoardOptions board;  // also the cluster, the mesh and this replica of everything else
  Runtime objects;            // StoreOptions::runtime
  // True: for the injection webhook, which reads few kinds and has one topic, "roots".
  bool injects = false;
};

// Records are in the ConfigMaps osm-root-rotation, osm-last-mesh-config, osm-join-tokens and
// osm-drained-machines of `osm_namespace`, CAs in its Secrets. While osm-last-mesh-config has a
// text, no preset makes another MeshConfig.
// Failure: none until they are read; then of a record also kPermissionDenied, naming the rule that
// is missing; of ca_store() kInvalidArgument (`secret` is empty); of join() as
// make_replica_board(). Thread: any. Blocking: no.
OSM_API Backend make_backend(const BackendOptions& options);

}  // namespace osm::inline v1::kubernetes
