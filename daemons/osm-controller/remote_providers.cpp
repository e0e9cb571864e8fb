#include "remote_providers.hpp"

#include <algorithm>

#include "daemon.hpp"

namespace osm::controller {

Result<std::unique_ptr<RemoteProviders>> RemoteProviders::start(const std::string& file,
                                                                OwnRuntime& runtime,
                                                                const TrustDomain& trust_domain) {
  std::unique_ptr<RemoteProviders> out(new RemoteProviders(runtime.lanes()));
  if (file.empty()) return out;
  OSM_TRY(const auto all, remote::read_providers_file(file));
  const Runtime waiting = daemon::with_executors(runtime, runtime.executor, out->waiting_);
  for (const remote::RemoteProviderOptions& options : all) {
    if (options.name == "vm" || options.name == "dns" || options.name == "azure" ||
        options.name == "kubernetes" || options.name.starts_with("kubernetes-"))
      return Error{ErrorCode::kInvalidField, file + ": provider '" + options.name +
                                                 "': name: is taken by the controller's own "
                                                 "provider; choose another"};
    auto made = remote::make_remote_provider(options, {waiting, trust_domain});
    if (!made.ok()) return made.error().with_context(file);
    out->providers_.emplace_back(*std::move(made), options.required);
  }
  return out;
}

void RemoteProviders::add_to(std::vector<ProviderEntry>& entries) const {
  for (const auto& [provider, required] : providers_)
    entries.push_back({.provider = provider.get(), .required = required});
}

void RemoteProviders::add_to(std::vector<WorkloadProvider*>& providers) const {
  for (const auto& [provider, required] : providers_) providers.push_back(provider.get());
}

std::vector<Workload> AllMachines::list_workloads() const {
  std::vector<Workload> out;
  for (const WorkloadProvider* provider : providers_)
    for (Workload& workload : provider->list_workloads()) out.push_back(std::move(workload));
  std::stable_sort(out.begin(), out.end(),
                   [](const Workload& a, const Workload& b) { return a.name < b.name; });
  return out;
}

std::optional<Workload> AllMachines::find_workload(const WorkloadName& name) const {
  for (const WorkloadProvider* provider : providers_)
    if (auto found = provider->find_workload(name)) return found;
  return std::nullopt;
}

}  // namespace osm::controller
