// The machines that `osm vm drain` took out of their Services: clients send them no new request,
// and they keep their configuration. All replicas of a control plane share one record of them.
// docs/vm.md has the procedure.
//
//   auto drained = vm::make_drained_machines({.record = *record, .runtime = runtime});
//   auto vms = vm::make_vm_provider({..., .drained = drained.get()});
//   drained->follow(vms.get(), [&] { return vms->has_synced(); });
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

class OSM_API DrainedMachines {
 public:
  // Ends reading the record. Blocking: for a running call. Thread: not of `runtime.blocking`.
  virtual ~DrainedMachines() = default;

  // True once the record was read: before that nobody knows who is drained. Stays true. Thread:
  // any. Blocking: no.
  virtual bool has_synced() const = 0;

  // True if the machine is drained under this UUID. Thread: any. Blocking: no.
  virtual bool contains(const WorkloadName& machine, const ProxyId& proxy) const = 0;

  // Drains a machine; one that is drained stays so. It is in effect here when the function returns,
  // and at other replicas when they have read the record again. Failure: kNotFound (it is none of
  // the machines of follow()), kTooLarge (1000 machines are drained); the record's. Thread: any but
  // an event loop's. Blocking: until it is recorded.
  virtual Status drain(const WorkloadName& machine, const ProxyId& proxy) = 0;

  // Takes a machine back; one that is not drained stays so. In effect as drain() is. Failure: the
  // record's. Thread: any but an event loop's. Blocking: until it is recorded.
  virtual Status take_back(const WorkloadName& machine) = 0;

  // Takes entries out of the record whose machine has another UUID, or was not among `machines` for
  // a minute while `synced` was true. Null: ends this, so that `machines` may be destroyed.
  // Thread: any. Blocking: briefly.
  virtual void follow(const WorkloadProvider* machines, std::function<bool()> synced) = 0;

  // Calls `on_change` with the machines that were drained or taken back, and with none when the
  // record was first read; contains() tells already. Thread: that of the change or of
  // `runtime.blocking`; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<WorkloadName>&)> on_change) = 0;
};

namespace vm {

// Lifetime: all outlive the object.
struct DrainedMachinesOptions {
  TextRecord& record;
  Runtime runtime;                   // `blocking` waits for the record
  std::chrono::seconds interval{1};  // between two readings of the record
};

// Reads the record. One that cannot be read is logged and read again after the interval; until
// then the last machines that were read stay drained, and a provider that never read it is not
// synced. Failure: none. Thread: any but an event
// loop's. Blocking: until the record was asked.
OSM_API std::unique_ptr<DrainedMachines> make_drained_machines(
    const DrainedMachinesOptions& options);

}  // namespace vm
}  // namespace osm::inline v1
