// Propagation status of objects. Joins the catalog's knowledge (generation and entries of an
// object) with the progress of the ADS server's proxies, and with the reports of other replicas.
// Has no state of its own.
//
// Thread: any but the executors'; a question waits briefly for the ADS server's strand.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ads/progress.hpp"
#include "catalog/mesh_loop.hpp"
#include "control_plane/replica_report.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/notifier.hpp"
#include "osm/result.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::control_plane {

// Lifetime: all outlive the value.
struct ReceiptsOptions {
  catalog::MeshLoop& mesh;
  ads::ProgressHost& proxies;
  const MeshSpec& spec;
  std::function<std::vector<Problem>()> problems;  // all problems, ordered
  // The proxies that refuse an object. Keys as in MeshLoop::object_state().
  std::function<std::map<model::ProxyKey, nack_provenance::Verdict>(const ObjectKey&)> refusing;
  // Reports of the other replicas (never null), and calls when they change.
  std::function<std::shared_ptr<const OtherReplicas>()> others;
  std::function<Subscription(std::function<void()>)> subscribe_others;
};

class Receipts {
 public:
  explicit Receipts(ReceiptsOptions options);

  // As ControlPlane's.
  Result<ObjectStatus> status(const ObjectKey& object) const;
  Result<ObjectStatus> wait_until_applied(const ObjectKey& object,
                                          std::chrono::milliseconds timeout) const;

  // Ends waiting and later questions with kUnavailable. Called before the server ends. Idempotent.
  void stop();

 private:
  class Wait;

  struct Answer {
    ObjectStatus status;
    std::vector<model::ProxyKey> lagging;
    bool refused_for_good = false;  // all of these refuse this version of the object
  };
  Result<Answer> look(const ObjectKey& object) const;

  const ReceiptsOptions options_;
  std::atomic<bool> stopped_ = false;
  mutable Notifier<> stopping_;
};

}  // namespace osm::inline v1::control_plane
