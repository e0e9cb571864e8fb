// Conformance suite for ReplicaBoards. The boards of this project (one controller, etcd,
// Kubernetes) pass it. docs/provider-guide.md explains each clause.
//
// A board's author writes a ReplicaBoardPlatform: a test's access to the store behind the boards.
// The suite lets replicas join, stand still, leave and lead. It needs no test framework:
//
//   const auto report = osm::testing::check_replica_board([] {
//     return std::make_unique<MyPlatform>(); });
//   std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// Capabilities of a store of boards. Clauses about a missing capability are not applicable.
struct ReplicaBoardTraits {
  bool several = true;  // more than one replica can join
  bool outages = true;  // the store can be unreachable
};

// A store for the boards of one mesh. It begins reachable and empty.
//
// For every call: Thread: one at a time, not always the same. Blocking: as the store's own tools
// do.
class OSM_API ReplicaBoardPlatform {
 public:
  virtual ~ReplicaBoardPlatform() = default;

  // Capabilities of this store. Default: all.
  virtual ReplicaBoardTraits traits() const { return {}; }

  // The board of one more replica of the mesh. The suite destroys it before the platform and before
  // what `runtime` borrows. Both executors of a replica run on one thread at a time, or stand still
  // with the replica. All replicas have one clock, which the suite moves second by second.
  virtual std::unique_ptr<ReplicaBoard> join(const std::string& replica,
                                             const Runtime& runtime) = 0;

  // While false, no board can reach the store. Called only if traits().outages is true.
  virtual void set_reachable(bool /*reachable*/) {}
};

using ReplicaBoardPlatformFactory = std::function<std::unique_ptr<ReplicaBoardPlatform>()>;

// Times of the boards, on the suite's clock, and the deadline of the suite.
struct ReplicaBoardConformanceOptions {
  // Time until each replica knows what the others said, and follows a leader that resigned.
  std::chrono::seconds settle{10};
  // Time until a replica that stands still is gone and another one leads, and until the boards work
  // again after an outage.
  std::chrono::seconds expiry{60};
  // Real time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
};

// Every clause, in the best order to read and to repair. Its ids never change.
OSM_API std::vector<ConformanceClause> replica_board_clauses();

// Checks all clauses. It stops at the first one if a replica does not find itself on its board.
// Failure: none; exceptions and hangs of the board are in the report.
// Thread: any; the suite starts threads. Blocking: until done; the options' deadlines bound the
// time.
OSM_API ConformanceReport check_replica_board(const ReplicaBoardPlatformFactory& platform,
                                              const ReplicaBoardConformanceOptions& options = {});

// Checks one clause. An unknown id fails.
OSM_API ConformanceResult
check_replica_board_clause(std::string_view id, const ReplicaBoardPlatformFactory& platform,
                           const ReplicaBoardConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
