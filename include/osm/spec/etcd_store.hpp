// The mesh's objects in etcd: an ObjectStore for any number of controllers, and its writer.
//
//   const etcd::CaStoreOptions access{.endpoints = {"https://10.0.0.1:2379"}, .key = "/osm", ...};
//   auto store = etcd::make_object_store({.etcd = access, .runtime = runtime});
//   auto writer = etcd::make_object_writer(access);
//
// `key` is a prefix here. An object is the value of one key, as the same YAML or JSON as elsewhere:
//   <key>/objects/<group>/<kind>/<namespace>/<name>
// with "-" for Kubernetes' core group and for the namespace of an object that has none.
#pragma once

#include <memory>

#include "osm/certificate/etcd_ca.hpp"
#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1::etcd {

// Settings of a store.
struct ObjectStoreOptions {
  CaStoreOptions etcd;  // of `deadline`, 2 s leave time to ask another endpoint
  Runtime runtime;      // `blocking` waits for etcd, and calls subscribers; it outlives the store
  spec::Kinds kinds = spec::mesh_kinds();  // objects of other kinds are left out
};

// A store that lists all objects at one revision and then watches them.
//
// - A watch that ends is resumed at its last revision, at another endpoint if its own has gone, has
//   no leader, or does not answer a linearizable read (the store asks for one every 5 s). If no
//   endpoint opens it, or the revision is compacted, the store lists again and announces the
//   differences only.
// - While etcd is away all objects stay. After 5 s this is a problem (kUnavailable).
// - A value that cannot be parsed keeps the object's last good content and is a problem; at the
//   first read the store does not sync before it can be read. A value that is no object of its key,
//   or of an unknown kind, is left out and a problem.
// - Object::resource_version is the revision at which the object got its content, and
//   Object::created its create revision.
// Failure: kInvalidArgument (an endpoint, the key, half of a pair of options), kUnreadableSource (a
// file). It does not wait for etcd.
// Thread: subscribers are called on `runtime.blocking`. Blocking: reads files; the destructor waits
// for a running request. Lifetime: destroy it from outside its own callbacks.
OSM_API Result<std::unique_ptr<ObjectStore>> make_object_store(const ObjectStoreOptions& options);

// Writes and removes objects by transactions that compare the key's mod_revision, the version.
// Failure: as make_object_store(). Blocking: reads files; it connects at the first call.
OSM_API Result<std::unique_ptr<spec::ObjectWriter>> make_object_writer(CaStoreOptions options);

}  // namespace osm::inline v1::etcd
