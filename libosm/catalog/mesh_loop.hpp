// The one writer of the mesh's state: hears of changes by key, gathers bursts, builds the next
// MeshSnapshot and publishes it.
//
//   MeshSpec ──keys──┐
//   providers ─keys──┼─► strand: fold ─► debounce ─► MeshBuilder ─► SnapshotCell
//   workloads ─keys──┘
//
// Events are only folded where they arrive; everything else happens on one strand of the executor.
// Nothing is published before the mesh specification and every required provider have synced, nor
// when an event changed nothing. Destroying the loop at any time is safe, inside a subscriber of
// its own snapshots too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/debounce.hpp"
#include "base/snapshot_cell.hpp"
#include "catalog/object_scope.hpp"
#include "endpoint/endpoint_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::catalog {

// All borrowed things outlive the loop.
struct MeshLoopOptions {
  MeshSpec& spec;
  std::vector<ProviderEntry> providers;  // in order of precedence
  std::vector<WorkloadProvider*> workload_providers;
  TrustDomains trust_domain{TrustDomain("cluster.local")};
  Executor& executor;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;
  DebounceOptions debounce{};
};

// What is known of one object of the mesh.
struct ObjectState {
  // Null before the first publish; then nothing else is told.
  std::shared_ptr<const model::MeshSnapshot> snapshot;
  std::uint64_t generation = 0;  // see ObjectRecord; 0: there is and was no such object
  bool present = false;
  bool pending = false;  // it has changed since the last look at it
  ObjectScope scope;     // whom it concerns now, or did lately
};

// Exported for osm::testing, a library of its own.
class OSM_API MeshLoop {
 public:
  // Subscribes to everything and starts to build. Thread: any. Blocking: no.
  explicit MeshLoop(const MeshLoopOptions& options);
  ~MeshLoop();  // stop()
  MeshLoop(const MeshLoop&) = delete;
  MeshLoop& operator=(const MeshLoop&) = delete;

  // Null inside until the first publish. Lives as long as the loop.
  SnapshotCell<model::MeshSnapshot>& snapshots();

  // "mesh specification", "endpoints provider vm": what the first snapshot waits for, as of the
  // last event that was folded in; empty once it is published. Thread: any. Blocking: no.
  std::vector<std::string> waiting_for() const;

  // The providers' health, as of the last event that was folded in. Thread: any. Blocking: no.
  std::vector<ProviderStatus> providers() const;

  // Kinds are as in model::Changes::objects, a MeshConfig without namespace and name.
  // Thread: any. Blocking: no.
  ObjectState object_state(const ObjectKey& object) const;

  // Calls `on_look` whenever object_state() may have changed, before the snapshot is published.
  // Thread: of the executor, one call at a time; must not block. Lifetime: until the handle dies.
  Subscription subscribe_looks(std::function<void()> on_look);

  // Builds with these from now on. Thread: any. Blocking: no.
  void set_trust_domains(const TrustDomains& trust_domains);

  // Ends every subscription and publishes nothing more; the last snapshot stays. Idempotent.
  // Thread: any. Blocking: until a build that is running is done, unless called by it.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace osm::inline v1::catalog
