// ObjectStore over a directory of YAML files, for meshes without Kubernetes.
//
// The store follows inotify and also looks at all files every 10 s, in case it missed an event. It
// reads a file when its writer closed it or renamed it into place. Other changes (a deletion, a
// change without an event) must stand still for 50 ms first, so that neither a half-written file
// nor an editor's rename-and-rewrite shows an empty mesh. If a file or directory cannot be read or
// parsed, the store keeps its last good content and reports a problem. has_synced() turns true
// after one look that could read everything, and stays true.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/fd_watcher.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::spec {

// Settings of a directory store.
struct DirectoryStoreOptions {
  std::string directory;  // need not exist yet; the store syncs after it exists
  FdWatcher& watcher;     // outlives the store
  Runtime runtime;
  Kinds kinds = mesh_kinds();  // objects of other kinds are refused
  // Keeps Object::created of the objects that have addresses over a restart, by tasks of
  // runtime.blocking. Nothing else writes it. Null: a restart forgets it.
  std::shared_ptr<TextRecord> first_seen{};
};

// Creates the store. It reads the directory on the executor and then notifies subscribers.
// Failure: kInvalidArgument (no directory named), kUnavailable (no inotify).
// Lifetime: destroy it from outside its own callbacks; the destructor waits for a running one.
OSM_API Result<std::unique_ptr<ObjectStore>> make_directory_store(
    const DirectoryStoreOptions& options);

}  // namespace osm::inline v1::spec
