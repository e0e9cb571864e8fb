// Everything that was left out of the mesh, from every room, in one place: each problem is logged
// once when it appears and once when it is gone, counted by code, and listed for administrators.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/snapshot_cell.hpp"
#include "base/strand.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object.hpp"

namespace osm::controller {

// All outlive the journal.
struct ProblemSources {
  MeshSpec& spec;  // its store's problems included
  WorkloadProvider& workloads;
  SnapshotCell<model::MeshSnapshot>& snapshots;  // the catalog logs these itself
};

class ProblemJournal {
 public:
  ProblemJournal(const ProblemSources& sources, Executor& executor, LogSink& log,
                 MetricsSink& metrics);
  ~ProblemJournal();

  // What is wrong now, ordered, each once. Thread: any. Blocking: no.
  std::vector<Problem> list() const;

 private:
  void trigger();
  void refresh();

  const ProblemSources sources_;
  LogSink& log_;
  MetricsSink& metrics_;
  Strand strand_;
  std::set<Problem> logged_;             // on the strand; lines left out, which edits shift
  std::map<ErrorCode, double> counted_;  // on the strand
  Subscription spec_changes_;
  Subscription workload_changes_;
  Subscription snapshot_changes_;
};

}  // namespace osm::controller
