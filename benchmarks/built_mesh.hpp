// The synthetic mesh as the catalog builds it, for microbenchmarks: no threads, no sockets.
#pragma once

#include <memory>

#include "catalog/mesh_loop.hpp"
#include "counting_sinks.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

class BuiltMesh {
 public:
  explicit BuiltMesh(const MeshSize& size);

  // Makes the change and lets the catalog build what follows from it.
  std::shared_ptr<const model::MeshSnapshot> after(Change change);
  std::shared_ptr<const model::MeshSnapshot> snapshot() { return loop_->snapshots().load(); }
  Workload workload(int proxy) const { return mesh_.workload(proxy); }

 private:
  void settle();

  SyntheticMesh mesh_;
  testing::ManualClock clock_;
  testing::ManualExecutor executor_{clock_};
  RandomRng rng_{1};
  WarningLog log_;
  CountingMetrics metrics_;
  testing::MemoryMeshSpec spec_;
  testing::MemoryEndpointsProvider provider_;
  std::unique_ptr<catalog::MeshLoop> loop_;
};

}  // namespace osm::bench
