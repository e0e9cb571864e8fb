// The providers of --providers, each in a process of its own, and the machines of all providers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "osm/endpoints_provider.hpp"
#include "osm/remote/provider.hpp"
#include "osm/runtime/lanes.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::controller {

class RemoteProviders {
 public:
  // Reads `file` and connects to its providers; empty: there are none. Failure: the file's fault,
  // with the remedy. Lifetime: `runtime` outlives it. Blocking: on the file.
  static Result<std::unique_ptr<RemoteProviders>> start(const std::string& file,
                                                        OwnRuntime& runtime,
                                                        const TrustDomain& trust_domain);

  // In the order of the file.
  void add_to(std::vector<ProviderEntry>& entries) const;
  void add_to(std::vector<WorkloadProvider*>& providers) const;

 private:
  explicit RemoteProviders(net::Lanes& lanes) : waiting_(lanes, {.name = "provider processes"}) {}

  // Apart from other blocking work: a provider's heartbeats are read in time.
  net::Lane waiting_;
  std::vector<std::pair<std::unique_ptr<remote::RemoteProvider>, bool>> providers_;  // required?
};

// The machines of several providers, for `osm vm bootstrap`. It announces nothing: ask again.
class AllMachines final : public WorkloadProvider {
 public:
  // Lifetime: they outlive it.
  explicit AllMachines(std::vector<WorkloadProvider*> providers)
      : providers_(std::move(providers)) {}

  std::vector<WorkloadProvider*> providers() const { return providers_; }

  std::vector<Workload> list_workloads() const override;
  std::optional<Workload> find_workload(const WorkloadName& name) const override;
  std::vector<Problem> list_problems() const override { return {}; }
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>&)> /*on_change*/) override {
    return {};
  }

 private:
  const std::vector<WorkloadProvider*> providers_;
};

}  // namespace osm::controller
