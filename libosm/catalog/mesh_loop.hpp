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

#include <memory>
#include <string>
#include <vector>

#include "base/debounce.hpp"
#include "base/snapshot_cell.hpp"
#include "endpoint/endpoint_table.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"

namespace osm::catalog {

using endpoint::ProviderEntry;

// All borrowed things outlive the loop.
struct MeshLoopOptions {
  MeshSpec& spec;
  std::vector<ProviderEntry> providers;  // in order of precedence
  std::vector<WorkloadProvider*> workload_providers;
  TrustDomain trust_domain{"cluster.local"};
  Executor& executor;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;
  DebounceOptions debounce{};
};

class MeshLoop {
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
  std::vector<endpoint::ProviderStatus> providers() const;

  // Ends every subscription and publishes nothing more; the last snapshot stays. Idempotent.
  // Thread: any. Blocking: until a build that is running is done, unless called by it.
  void stop();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace osm::catalog
