// All problems of all rooms. Each problem is logged once when it appears and once when it is gone,
// counted by code, and listed for administrators.
#pragma once

#include <atomic>
#include <functional>
#include <map>
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
#include "osm/notifier.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::control_plane {

// Lifetime: all outlive the journal.
struct ProblemSources {
  MeshSpec& spec;  // its store's problems included
  std::vector<WorkloadProvider*> workloads;
  SnapshotCell<model::MeshSnapshot>& snapshots;  // the catalog logs these itself
  // Problems of the mesh's roots; check_again() follows a change. Null: none.
  std::function<std::vector<Problem>()> roots{};
  // Problems of objects that proxies refuse; as above.
  std::function<std::vector<Problem>()> refused{};
};

class ProblemJournal {
 public:
  ProblemJournal(const ProblemSources& sources, Executor& executor, LogSink& log,
                 MetricsSink& metrics);
  ~ProblemJournal();

  // The present problems, ordered, each once. Thread: any. Blocking: no.
  std::vector<Problem> list() const;

  // Calls `on_change` whenever the list or the mesh may have changed, and after announce(). One
  // call may stand for several changes.
  Subscription subscribe(std::function<void()> on_change) {
    return changed_.subscribe(std::move(on_change));
  }

  // Reads all sources again. Thread: any. Blocking: no.
  void check_again() { trigger(); }

  // Calls the subscribers; the list is as before. Thread: any. Blocking: no.
  void announce();
  // Ends all subscriptions; the list can still be read. Idempotent.
  void stop();

 private:
  std::vector<Problem> inputs() const;
  void trigger();
  void refresh();

  const ProblemSources sources_;
  LogSink& log_;
  MetricsSink& metrics_;
  Notifier<> changed_;
  std::atomic<bool> triggered_ = false;  // a refresh() is posted
  std::atomic<bool> announced_ = false;  // a call of the subscribers is posted
  Strand strand_;
  std::set<Problem> logged_;             // used on the strand; without lines, which edits shift
  std::map<ErrorCode, double> counted_;  // used on the strand
  std::vector<Subscription> subscriptions_;
};

}  // namespace osm::inline v1::control_plane
