// Answers machines that leave the mesh: drains the machine, and tells which proxies have
// acknowledged it. Identity and limits were checked before (ads).
#pragma once

#include <functional>
#include <memory>

#include "ads/drains.hpp"
#include "base/strand.hpp"
#include "osm/providers/drained_machines.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::control_plane {

// Lifetime: all outlive it.
struct MachineDrainsOptions {
  DrainedMachines& drained;
  Runtime runtime;  // `blocking` waits for the record of drained machines
  // As ControlPlane::object_status(); called on `blocking`.
  std::function<Result<ObjectStatus>(const ObjectKey&)> status;
};

class MachineDrains {
 public:
  explicit MachineDrains(MachineDrainsOptions options)
      : options_(std::move(options)), strand_(options_.runtime.blocking) {}
  ~MachineDrains() { stop(); }

  // As ads::DrainMachine. Thread: any. Blocking: no.
  void answer(std::shared_ptr<const model::WorkloadEntry> workload,
              std::function<void(ads::DrainAnswer)> done);

  // Ends answering, and waits for a running call. Idempotent.
  void stop() { strand_.stop(); }

 private:
  ads::DrainAnswer drain(const Workload& machine) const;

  const MachineDrainsOptions options_;
  Strand strand_;
};

}  // namespace osm::inline v1::control_plane
