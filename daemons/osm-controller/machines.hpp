// The machines of the mesh: VirtualMachines, and resources of platforms with their resolvers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/providers/drained_machines.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/result.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/spec/azure_resources.hpp"
#include "osm/spec/dns_resources.hpp"
#include "osm/spec/vm_provider.hpp"

namespace osm::controller {

class Machines {
 public:
  // `records` waits for the record of drained machines. Lifetime: all outlive it.
  // Failure: kInvalidArgument, an option and its remedy. Blocking: until the record was asked.
  static Result<std::unique_ptr<Machines>> start(const Options& options, OwnRuntime& runtime,
                                                 const Backend& backend, MeshSpec& spec,
                                                 Executor& records);
  ~Machines() { drained_->follow(nullptr, {}); }

  // In order of precedence.
  std::vector<ProviderEntry> providers();
  std::vector<WorkloadProvider*> workload_providers();
  DrainedMachines& drained() { return *drained_; }

 private:
  explicit Machines(net::Lanes& lanes) : resolving_(lanes, {.name = "name servers"}) {}
  Status start_azure(const Options& options, OwnRuntime& runtime);

  net::Lane resolving_;
  std::optional<net::Lane> asking_;  // waits for Azure; absent: without --azure-config
  std::unique_ptr<ResourceResolver> dns_resolver_;
  std::unique_ptr<ResourceResolver> azure_resolver_;  // null: without --azure-config
  std::unique_ptr<DrainedMachines> drained_;
  std::unique_ptr<vm::VmProvider> vms_;
  std::unique_ptr<dns::DnsProvider> dns_;
  std::unique_ptr<azure::AzureProvider> azure_;
};

}  // namespace osm::controller
