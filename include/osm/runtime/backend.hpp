// The stores that replicas of a control plane share: a directory of this machine, etcd
// (osm/etcd/backend.hpp), or a Kubernetes cluster (osm/kubernetes/backend.hpp).
//
//   auto backend = make_directory_backend({.directory = "/etc/osm/mesh", ...});
//   auto spec = spec::make_mesh_spec({.store = *backend->objects, ...});
//   auto board = backend->join();
//   RootRotation::start({..., .record = *backend->root_rotation, .board = board->get()});
//
// A Backend is a plain value. Parts of two backends can be mixed: objects in a directory, and the
// rest in etcd.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "osm/certificate/ca_store.hpp"
#include "osm/detail/api.hpp"
#include "osm/object_store.hpp"
#include "osm/result.hpp"
#include "osm/runtime/fd_watcher.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/object_writer.hpp"

namespace osm::inline v1 {

// The place of a CA's key.
struct CaPlace {
  std::string root;      // kOwnRoot, or the name of a MeshRootCertificate
  std::string secret{};  // name of the Secret; required on Kubernetes, unused elsewhere
};

// Everything that replicas share. No function is empty, and no pointer is null but the noted ones.
// Lifetime: everything that its maker borrowed outlives the backend and all that its functions
// made.
struct Backend {
  std::string objects_in{};  // the place of the objects: net::AdminApiOptions::objects_in
  std::string replica{};     // name of this replica on the board; no replica ever had it
  std::unique_ptr<ObjectStore> objects{};        // null: the objects are elsewhere
  std::unique_ptr<spec::ObjectWriter> writer{};  // etcd's into `objects`; null: others write them

  // Records. Failure: none until they are read.
  std::unique_ptr<TextRecord> root_rotation{};     // RootRotationOptions::record
  std::unique_ptr<TextRecord> last_mesh_config{};  // spec::KeptConfigOptions; null as `objects`
  // net::AdminApiOptions::join_tokens. Whoever may write it can become any machine of the mesh.
  std::unique_ptr<TextRecord> join_tokens{};
  std::unique_ptr<TextRecord> drained_machines{};  // osm/providers/drained_machines.hpp
  // Pause between two readings of a record that others write.
  std::chrono::seconds read_every{1};

  // Opens the store of a CA. Failure: kStorage; kInvalidArgument (`place`); faults of the maker's
  // options. Thread: any, concurrently. Blocking: files; the store itself waits for its server.
  std::function<Result<std::unique_ptr<certificate::CaStore>>(const CaPlace& place)> ca_store{};
  // Joins the other replicas. Result: the board, on which they see this replica; null: this is the
  // only one, which leads. Failure: kUnavailable, kPermissionDenied: call it again. Thread: any but
  // an event loop's. Blocking: until the server has answered.
  std::function<Result<std::unique_ptr<ReplicaBoard>>()> join{};
};

// A directory of YAML, and a directory for this controller's records and CA.
struct DirectoryBackendOptions {
  std::string directory;  // spec::DirectoryStoreOptions::directory
  std::string state_dir;  // of this process and user alone; exists
  FdWatcher& watcher;     // outlives the backend
  Runtime runtime;        // of the store of objects; `blocking` waits for the disk
  std::string replica;    // Backend::replica
};

// The backend of a controller that is alone. Its records are "<state_dir>/rotation.json",
// "mesh-config.json", "join-tokens.json", "drained-machines.json" and "first-seen.json", and its
// CAs are in "ca" and "roots/<name>". Failure: as spec::make_directory_store(). Thread: any.
// Blocking: no.
OSM_API Result<Backend> make_directory_backend(const DirectoryBackendOptions& options);

}  // namespace osm::inline v1
