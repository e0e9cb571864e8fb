// Endpoints and workloads from VirtualMachine objects and the Services that select them.
//
// Only machines of monitored namespaces count. If several machines claim one proxy UUID, the first
// by name keeps it. The others are left out and reported; if all were refused, any machine could
// evict the others. A change of one machine or Service recomputes only the Services and machines
// that it touches.
#pragma once

#include <memory>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1 {
class DrainedMachines;  // osm/providers/drained_machines.hpp
}

namespace osm::inline v1::vm {

// Inputs of a VM provider, and its sinks.
struct VmProviderOptions {
  ObjectStore& store;   // holds the VirtualMachines; this and the rest outlive the provider
  MeshSpec& mesh_spec;  // Services and namespaces, from the same store
  TrustDomain trust_domain;
  LogSink& log;
  MetricsSink& metrics;
  // Machines whose endpoints are left out, though they stay workloads; outlives the provider. Null:
  // none is.
  DrainedMachines* drained = nullptr;
};

class OSM_API VmProvider : public EndpointsProvider, public WorkloadProvider {};

// Reads the present content of the store and the MeshSpec at once. Its id is "vm". Failure: none.
// Thread: subscribers are called in the store's thread.
OSM_API std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options);

}  // namespace osm::inline v1::vm
