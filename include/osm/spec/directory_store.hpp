// ObjectStore over a directory of YAML files, for meshes without Kubernetes.
//
// The store follows inotify and also looks at all files every 10 s, in case it missed an event. It
// reads a file when its writer closed it or renamed it into place. Other changes (a deletion, a
// change without an event) must stand still for 50 ms first, so that neither a half-written file
// nor an editor's rename-and-rewrite shows an empty mesh. If a file or directory cannot be read or
// parsed, the store keeps its last good content and reports a problem. has_synced() turns true
// after one look that could read everything, and stays true.
//
// Its writer changes two files, which commands keep in the directory beside those that people
// write.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/fd_watcher.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_writer.hpp"

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

// The writer's file of Denylists in the directory.
inline constexpr std::string_view kDenylistFile = "osm-denylist.yaml";
// The writer's file of MeshRootCertificates in the directory.
inline constexpr std::string_view kRootsFile = "osm-root-certificates.yaml";

// A writer of these two files in a directory that exists. It replaces the whole file for each
// change, under a lock on the directory, for which it waits up to `wait`. A reader finds the file
// before or after a change. An object's version is its document. Failure of each call: also
// kInvalidArgument (an object of another kind), kConflict (another file has the object, the
// writer's own file has an object of another kind, or `wait` is over; the message says which),
// kStorage, and faults of the own file: kInvalidSyntax, kInvalidField, kUnknownKind,
// kUnreadableSource. Thread: any, concurrently. Blocking: on files, and writes for the lock.
OSM_API std::unique_ptr<ObjectWriter> make_directory_writer(std::string directory,
                                                            std::chrono::milliseconds wait);

}  // namespace osm::inline v1::spec
