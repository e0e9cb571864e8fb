// Where VirtualMachine objects say workloads are, and which Services select them.
//
// Machines count in monitored namespaces only. Of machines that claim one proxy UUID the first by
// name keeps it; the others are left out and reported, since refusing all would let any of them
// evict the rest. A change of one machine or Service recomputes only the Services and machines it
// touches.
#pragma once

#include <memory>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::vm {

// What a VM provider reads, and where it reports.
struct VmProviderOptions {
  ObjectStore& store;   // of VirtualMachines; these outlive the provider
  MeshSpec& mesh_spec;  // Services and namespaces, of the same store
  TrustDomain trust_domain;
  LogSink& log;
  MetricsSink& metrics;
};

class OSM_API VmProvider : public EndpointsProvider, public WorkloadProvider {};

// Reads what the store and the MeshSpec have at once; its id is "vm". Failure: none.
// Subscribers are called in the store's thread.
OSM_API std::unique_ptr<VmProvider> make_vm_provider(const VmProviderOptions& options);

// What is wrong with a VirtualMachine as it was written, each with its field, without path and
// line; empty: it is valid. For validators. Thread: any. Blocking: no.
OSM_API std::vector<Problem> check_virtual_machine(const Object& object);

}  // namespace osm::inline v1::vm
