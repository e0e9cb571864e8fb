// The only writer of the mesh's state. It receives changes by key, collects bursts, builds the next
// MeshSnapshot and publishes it.
//
//   MeshSpec ──keys──┐
//   providers ─keys──┼─► strand: fold ─► debounce ─► MeshBuilder ─► SnapshotCell
//   workloads ─keys──┘
//
// The threads of the sources only record events; everything else happens on one strand of the
// executor. The loop publishes nothing before the mesh specification and every required provider
// have synced, nor after an event without effect. Destroying the loop is safe at any time, also
// inside a subscriber of its own snapshots.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/debounce.hpp"
#include "base/snapshot_cell.hpp"
#include "catalog/object_records.hpp"
#include "catalog/object_scope.hpp"
#include "endpoint/endpoint_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/proxy_readiness.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::catalog {

// Lifetime: everything borrowed outlives the loop.
struct MeshLoopOptions {
  MeshSpec& spec;
  std::vector<ProviderEntry> providers;  // in order of precedence
  std::vector<WorkloadProvider*> workload_providers;
  TrustDomains trust_domain{TrustDomain("cluster.local")};
  Runtime runtime;
  DebounceOptions debounce{};
  // Clients are told what concerns them when servers' proxies are ready (ReadinessGate); null: at
  // once.
  model::ProxyReadiness* readiness = nullptr;
};

// State of one object of the mesh.
struct ObjectState {
  // Null before the first publish; then the other members are empty.
  std::shared_ptr<const model::MeshSnapshot> snapshot;
  std::uint64_t generation = 0;  // see ObjectRecord; 0: there is and was no such object
  bool present = false;
  // It changed since the last build read it, or what came with it waits for proxies.
  bool pending = false;
  bool effective = true;  // has_effect()
  ObjectScope scope;      // its scope now, or lately
};

// Changes that some proxies may not have applied yet.
struct LateChanges {
  std::shared_ptr<const model::MeshSnapshot> snapshot;  // null before the first publish
  ObjectRecords::Late changes{};                        // that it holds
};

// Exported for osm::testing, a library of its own.
class OSM_API MeshLoop {
 public:
  // Subscribes to all sources and starts to build. Thread: any. Blocking: no.
  explicit MeshLoop(const MeshLoopOptions& options);
  ~MeshLoop();  // stop()
  MeshLoop(const MeshLoop&) = delete;
  MeshLoop& operator=(const MeshLoop&) = delete;

  // The published snapshots; the cell holds null before the first one. Lifetime: the loop's.
  SnapshotCell<model::MeshSnapshot>& snapshots();

  // Time at which a source announced the first change of the newest snapshot. max(): there is no
  // snapshot. A subscriber of snapshots() sees the time of its snapshot. Thread: any. Blocking: no.
  SteadyTime announced_at() const;

  // Inputs that the first snapshot waits for, as of the last recorded event: "mesh specification",
  // "endpoints provider vm". Empty once it is published. Thread: any. Blocking: no.
  std::vector<std::string> waiting_for() const;

  // The providers' health, as of the last recorded event. Thread: any. Blocking: no.
  std::vector<ProviderStatus> providers() const;

  // Failure: kUnavailable: the loop hangs (Pulse). A long build is no hang. Thread: any. Blocking:
  // no.
  Status alive() const;

  // State of one object. Kinds are as in model::Changes::objects; a MeshConfig has neither
  // namespace nor name.
  // Thread: any. Blocking: no.
  ObjectState object_state(const ObjectKey& object) const;

  // The newest snapshot, and what changed in it after `generation`. Thread: any. Blocking: no.
  LateChanges changed_after(std::uint64_t generation) const;

  // Calls `on_look` whenever object_state() may have changed, before the snapshot is published.
  // Thread: of the executor, one call at a time; must not block. Lifetime: until the handle dies.
  Subscription subscribe_looks(std::function<void()> on_look);

  // Uses these trust domains in the next builds. Thread: any. Blocking: no.
  void set_trust_domains(const TrustDomains& trust_domains);

  // Ends every subscription and publishes nothing more; the last snapshot stays. Idempotent.
  // Thread: any. Blocking: until a running build is done, unless that build makes the call.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace osm::inline v1::catalog
