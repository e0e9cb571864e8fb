#include "control_plane/machine_drains.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace osm::inline v1::control_plane {
namespace {

// Number of lagging proxies that an answer names.
constexpr std::size_t kNamedBehind = 5;

}  // namespace

void MachineDrains::answer(std::shared_ptr<const model::WorkloadEntry> workload,
                           std::function<void(ads::DrainAnswer)> done) {
  strand_.post([this, workload = std::move(workload), done = std::move(done)] {
    done(drain(workload->workload));
  });
}

ads::DrainAnswer MachineDrains::drain(const Workload& machine) const {
  if (!options_.drained.contains(machine.name, machine.proxy_id)) {
    OSM_TRY(options_.drained.drain(machine.name, machine.proxy_id));
    options_.runtime.log.info("machine drained, since it leaves the mesh",
                              {{"workload", machine.name.str()}, {"uuid", machine.proxy_id.str()}});
  }
  // The provider has announced the change by now: the status tells of it, or waits for it.
  OSM_TRY(const ObjectStatus status,
          options_.status({kinds::kVirtualMachine, machine.name.ns, machine.name.name}));
  openservicemesh::certificate::v1::DrainMachineResponse response;
  response.set_applied(status.phase == ObjectPhase::kApplied);
  response.set_concerned(static_cast<std::uint32_t>(status.concerned));
  response.set_acknowledged(static_cast<std::uint32_t>(status.applied));
  for (std::size_t i = 0; i < std::min(kNamedBehind, status.lagging.size()); ++i)
    response.add_behind(status.lagging[i].workload.str());
  return response;
}

}  // namespace osm::inline v1::control_plane
