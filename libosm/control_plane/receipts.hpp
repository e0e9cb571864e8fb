// "Is this change live?": joins what the catalog knows of an object (in which generation it is, and
// whom it concerns) with how far the ADS server's proxies are. Keeps nothing itself.
//
// Thread: any but the executors'; a question waits briefly for the ADS server's strand.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "ads/progress.hpp"
#include "catalog/mesh_loop.hpp"
#include "osm/notifier.hpp"
#include "osm/result.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::control_plane {

// All outlive the value.
struct ReceiptsOptions {
  catalog::MeshLoop& mesh;
  ads::ProgressHost& proxies;
  std::function<std::vector<Problem>()> problems;  // of everything, ordered
};

class Receipts {
 public:
  explicit Receipts(ReceiptsOptions options);

  // As ControlPlane's.
  Result<ObjectStatus> status(const ObjectKey& object) const;
  Result<ObjectStatus> wait_until_applied(const ObjectKey& object,
                                          std::chrono::milliseconds timeout) const;

  // Whoever waits or asks is told kUnavailable. Before the server ends. Idempotent.
  void stop();

 private:
  class Wait;

  struct Answer {
    ObjectStatus status;
    std::vector<model::ProxyKey> lagging;
  };
  Result<Answer> look(const ObjectKey& object) const;

  const ReceiptsOptions options_;
  std::atomic<bool> stopped_ = false;
  mutable Notifier<> stopping_;
};

}  // namespace osm::inline v1::control_plane
