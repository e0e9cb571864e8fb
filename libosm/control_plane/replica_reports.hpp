// Publishes this replica's report on the board, and holds the reports of the others.
//
// The cost follows change: a mesh at rest publishes nothing, and many acknowledgements become one
// report. There is at most one report a second, and at most 16 kB a second on average. Without
// other replicas there is none.
//
// Thread: any, but for start() and stop(); it works on a strand of Runtime::blocking, since it
// waits for the ADS server's strand.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ads/progress.hpp"
#include "base/round.hpp"
#include "base/snapshot_cell.hpp"
#include "base/strand.hpp"
#include "catalog/mesh_loop.hpp"
#include "control_plane/replica_report.hpp"
#include "nack_provenance/verdicts.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::control_plane {

// Lifetime: all outlive the value.
struct ReplicaReportsOptions {
  // Null: this is the only replica. Replicas with objects of their own report nothing.
  ReplicaBoard* board = nullptr;
  Runtime runtime;
  catalog::MeshLoop& mesh;
  nack_provenance::Verdicts& verdicts;
  // Proxy certificates that this replica knows itself.
  std::function<std::vector<certificate::ProxyCertificate>()> certificates;
};

class ReplicaReports {
 public:
  explicit ReplicaReports(ReplicaReportsOptions options);
  ~ReplicaReports() { stop(); }
  ReplicaReports(const ReplicaReports&) = delete;
  ReplicaReports& operator=(const ReplicaReports&) = delete;

  // Joins the board. Lifetime: `proxies` until stop(). Called once.
  void start(ads::ProgressHost& proxies);
  // Tells that something else of the report may have changed. Blocking: no.
  void touch();

  // The newest reports. Never null. Blocking: no.
  std::shared_ptr<const OtherReplicas> others() const { return others_.load(); }
  // True if other replicas may come.
  bool shares() const { return board_ != nullptr; }
  // Refusals of proxies of other replicas. Blocking: no.
  nack_provenance::Refusals refusals() const;
  // Calls `on_change` after others() changed. Thread: of Runtime::blocking, one call at a time;
  // must not block. Lifetime: until the handle dies.
  Subscription subscribe(std::function<void()> on_change) {
    return changed_.subscribe(std::move(on_change));
  }

  // Tells the others that this replica serves no proxies any more, and ends. Idempotent. Blocking:
  // until a running task is done.
  void stop();

 private:
  // Last text of a replica, and what it says.
  struct Heard {
    std::string text{};
    std::shared_ptr<const ReplicaReport> report{};
    std::uint64_t generation = 0;  // OtherReplica::heard
    std::uint64_t awaited = 0;     // the next one, unless a report comes first
    SteadyTime awaited_since{};
    bool silent = false;  // it has not reported its mesh yet
    SteadyTime joined{};  // then
  };

  void listen();
  static void note_generation(Heard& heard, std::uint64_t generation, SteadyTime now);
  Pause report();
  ReplicaReport made();
  void publish(std::string text);

  const ReplicaReportsOptions options_;
  ReplicaBoard* const board_;  // null: nothing is reported
  const std::string id_;
  ads::ProgressHost* proxies_ = nullptr;
  SnapshotCell<OtherReplicas> others_;
  Notifier<> changed_;
  std::atomic<bool> stopped_ = false;

  // On the strand.
  std::string told_;   // published last
  SteadyTime next_{};  // not earlier
  std::map<std::string, Heard> heard_;
  std::map<model::ProxyKey, WallTime> owing_;  // proxies that owe an answer for long
  bool lags_ = false;                          // some proxy owes an answer
  Strand strand_;
  Round reports_;
  Round listens_;
  std::vector<Subscription> subscriptions_;
};

}  // namespace osm::inline v1::control_plane
