#include "osm/testing/memory_endpoints_provider.hpp"

#include <map>
#include <mutex>
#include <utility>

#include "osm/notifier.hpp"

namespace osm::inline v1::testing {

struct MemoryEndpointsProvider::State {
  std::string id;
  mutable std::mutex mutex;
  bool synced = true;
  bool healthy = true;
  std::map<ServiceName, std::vector<Endpoint>> endpoints;
  std::map<WorkloadName, Workload> workloads;
  std::vector<Problem> problems;
  Notifier<const std::vector<ServiceName>&> services_changed;
  Notifier<const std::vector<WorkloadName>&> workloads_changed;

  // Sets `slot`. Result: true if that changed it.
  template <class T>
  bool replace(T& slot, T value) {
    std::lock_guard lock(mutex);
    if (slot == value) return false;
    slot = std::move(value);
    return true;
  }
};

MemoryEndpointsProvider::MemoryEndpointsProvider(std::string id)
    : state_(std::make_unique<State>()) {
  state_->id = std::move(id);
}
MemoryEndpointsProvider::~MemoryEndpointsProvider() = default;

void MemoryEndpointsProvider::set_endpoints(const ServiceName& service,
                                            std::vector<Endpoint> endpoints) {
  {
    std::lock_guard lock(state_->mutex);
    const auto [at, added] = state_->endpoints.try_emplace(service);
    if (!added && at->second == endpoints) return;
    at->second = std::move(endpoints);
  }
  state_->services_changed.notify({service});
}

void MemoryEndpointsProvider::remove_endpoints(const ServiceName& service) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->endpoints.erase(service) == 0) return;
  }
  state_->services_changed.notify({service});
}

void MemoryEndpointsProvider::put_workload(const Workload& workload) {
  {
    std::lock_guard lock(state_->mutex);
    const auto [at, added] = state_->workloads.try_emplace(workload.name);
    if (!added && at->second == workload) return;
    at->second = workload;
  }
  state_->workloads_changed.notify({workload.name});
}

void MemoryEndpointsProvider::remove_workload(const WorkloadName& name) {
  {
    std::lock_guard lock(state_->mutex);
    if (state_->workloads.erase(name) == 0) return;
  }
  state_->workloads_changed.notify({name});
}

void MemoryEndpointsProvider::set_synced(bool synced) {
  if (state_->replace(state_->synced, synced)) state_->services_changed.notify({});
}

void MemoryEndpointsProvider::set_healthy(bool healthy) {
  if (state_->replace(state_->healthy, healthy)) state_->services_changed.notify({});
}

void MemoryEndpointsProvider::set_problems(std::vector<Problem> problems) {
  if (state_->replace(state_->problems, std::move(problems))) state_->workloads_changed.notify({});
}

std::string MemoryEndpointsProvider::id() const { return state_->id; }

bool MemoryEndpointsProvider::has_synced() const {
  std::lock_guard lock(state_->mutex);
  return state_->synced;
}

bool MemoryEndpointsProvider::healthy() const {
  std::lock_guard lock(state_->mutex);
  return state_->healthy;
}

std::optional<std::vector<Endpoint>> MemoryEndpointsProvider::list_endpoints_for_service(
    const ServiceName& service) const {
  std::lock_guard lock(state_->mutex);
  const auto at = state_->endpoints.find(service);
  if (at == state_->endpoints.end()) return std::nullopt;
  return at->second;
}

Subscription MemoryEndpointsProvider::subscribe(
    std::function<void(const std::vector<ServiceName>& changed)> on_change) {
  return state_->services_changed.subscribe(std::move(on_change));
}

std::vector<Workload> MemoryEndpointsProvider::list_workloads() const {
  std::lock_guard lock(state_->mutex);
  std::vector<Workload> out;
  for (const auto& [name, workload] : state_->workloads) out.push_back(workload);
  return out;
}

std::optional<Workload> MemoryEndpointsProvider::find_workload(const WorkloadName& name) const {
  std::lock_guard lock(state_->mutex);
  const auto at = state_->workloads.find(name);
  return at == state_->workloads.end() ? std::nullopt : std::optional(at->second);
}

std::vector<Problem> MemoryEndpointsProvider::list_problems() const {
  std::lock_guard lock(state_->mutex);
  return state_->problems;
}

Subscription MemoryEndpointsProvider::subscribe_workloads(
    std::function<void(const std::vector<WorkloadName>& changed)> on_change) {
  return state_->workloads_changed.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
