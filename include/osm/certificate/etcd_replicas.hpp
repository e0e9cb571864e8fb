// Controllers on machines that share a CA in etcd (etcd_ca.hpp) share two things more there: the
// record of root rotations, and a board with a leader. All keys are below the CA's key.
//
//   auto record = etcd::make_rotation_record(access);
//   auto replicas = etcd::make_replicas({.etcd = access, .runtime = ..., .replica = name});
//   RootRotation::start({..., .record = **record, .board = replicas->get()});
#pragma once

#include <memory>
#include <string>

#include "osm/certificate/etcd_ca.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::etcd {

// The record in the key "<options.key>/rotation". A store() whose answer was lost may be followed
// by a kConflict, though the text was stored: load() shows it.
// Failure: as make_ca_store(); of load() and store() also kPermissionDenied. Thread, blocking: as
// make_ca_store().
OSM_API Result<std::unique_ptr<TextRecord>> make_rotation_record(CaStoreOptions options);

// The record of the tokens with which machines join (net::AdminApiOptions::join_tokens), in the key
// "<options.key>/join-tokens". Failure, thread, blocking: as make_rotation_record().
OSM_API Result<std::unique_ptr<TextRecord>> make_join_record(CaStoreOptions options);

// The record of drained machines (osm/providers/drained_machines.hpp), in the key
// "<options.key>/drained-machines". Failure, thread, blocking: as make_rotation_record().
OSM_API Result<std::unique_ptr<TextRecord>> make_drain_record(CaStoreOptions options);

// The place of the replicas in etcd, and this one's name.
struct ReplicasOptions {
  CaStoreOptions etcd;  // of `deadline`, less than 5 s leaves time to ask another endpoint
  Runtime runtime;      // `blocking` waits for etcd; it outlives the replicas
  std::string replica;  // unique, also among former replicas
  // True: the mesh's objects are in the same etcd (osm/spec/etcd_store.hpp), so that confirmed_at()
  // says when this replica last renewed its lease there.
  bool has_objects = false;
};

// Joins the replicas that share a CA. Each has a key "<key>/replicas/<replica>" under a lease of
// 15 s, which it renews every 5 s, and reads the others' keys every second. While it holds a handle
// of stand(), it has a key "<key>/replicas-standing/<replica>" under that lease, too. The replica
// whose key of these is the oldest leads. A replica that is cut off from etcd stops to lead 10 s
// after it last renewed its lease. That is 5 s before another one can begin.
//
// The replicas see this one, and it knows them, when the function returns. Later
// failures are logged, and retried every second. Destroying it leaves: no other replica waits.
// Failure: kInvalidArgument (`replica`); as make_ca_store(); kUnavailable, kPermissionDenied.
// Thread: any but those of `etcd.io`; the destructor not on `runtime.blocking`. Blocking: until
// etcd answers, the destructor too.
OSM_API Result<std::unique_ptr<ReplicaBoard>> make_replicas(const ReplicasOptions& options);

}  // namespace osm::inline v1::etcd
