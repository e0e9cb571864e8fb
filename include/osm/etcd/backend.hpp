// A mesh in etcd, or the part of it that controllers with directories of their own share: their CA,
// their records and their board.
//
//   auto backend = etcd::make_backend({.etcd = {.endpoints = {"https://10.0.0.1:2379"}, ...},
//                                      .objects_key = "/osm", ...});
#pragma once

#include <string>

#include "osm/certificate/etcd_ca.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::etcd {

// The places in etcd. Everything borrowed outlives the backend.
struct BackendOptions {
  // Its `key` is the key of the mesh's own CA, and the others' keys are below it. Except for a CA,
  // an endpoint has 2 s to answer at most.
  CaStoreOptions etcd;
  // Prefix of the objects' keys; empty: the objects are elsewhere. Else the board's confirmed_at()
  // says when this replica last renewed its lease.
  std::string objects_key{};
  Runtime objects;      // ObjectStoreOptions::runtime; unused without `objects_key`
  Runtime board;        // `blocking` waits for etcd
  std::string replica;  // Backend::replica
  // File with the record of root rotations of a controller that was alone. join() first stores it
  // in etcd if etcd has none, and in any case renames the file to "<file>.old". A damaged one that
  // etcd lacks stays, and join() fails before the board has this replica. Empty: there is none.
  std::string moved_from{};
};

// The CA of a MeshRootCertificate is in the key "<etcd.key>/roots/<name>". Records are in the keys
// "<etcd.key>/rotation", "/join-tokens", "/drained-machines", and "<objects_key>/mesh-config". A
// store() of a record whose answer was lost may be followed by a kConflict, though the text was
// stored: load() shows it.
//
// A replica on the board has a key "<etcd.key>/replicas/<replica>" under a lease of 15 s, which it
// renews every 5 s, and reads the others' keys every second. While it holds a handle of stand(), it
// has a key "<etcd.key>/replicas-standing/<replica>" under that lease, too. The replica whose key
// of these is the oldest leads. A replica that is cut off from etcd stops to lead 10 s after it
// last renewed its lease. That is 5 s before another one can begin. Failures after join() are
// logged, and retried every second. Destroying the board leaves: no other replica waits. It blocks
// until etcd answers, and is not called on `board.blocking`.
//
// Failure: as make_object_store(); of records and join() also kPermissionDenied, kStorage; of
// join() kInvalidArgument (`replica`). Thread: any. Blocking: reads files.
OSM_API Result<Backend> make_backend(const BackendOptions& options);

}  // namespace osm::inline v1::etcd
