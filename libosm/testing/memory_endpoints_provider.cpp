#include "osm/testing/memory_endpoints_provider.hpp"

#include <map>
#include <utility>

#include "base/maps.hpp"
#include "testing/published.hpp"

namespace osm::inline v1::testing {

struct MemoryEndpointsProvider::State {
  struct Services {
    bool synced = true;
    bool healthy = true;
    std::map<ServiceName, std::vector<Endpoint>> endpoints;
    std::map<ServiceName, std::vector<std::string>> sources;
  };
  struct Workloads {
    std::map<WorkloadName, Workload> by_name;
    std::vector<Problem> problems;
  };
  std::string id;
  Published<Services, ServiceName> services;
  Published<Workloads, WorkloadName> workloads;
};

MemoryEndpointsProvider::MemoryEndpointsProvider(std::string id)
    : state_(std::make_unique<State>()) {
  state_->id = std::move(id);
}
MemoryEndpointsProvider::~MemoryEndpointsProvider() = default;

void MemoryEndpointsProvider::set_endpoints(const ServiceName& service,
                                            std::vector<Endpoint> endpoints) {
  state_->services.change(service, [&](State::Services& now) {
    return put_or_erase(now.endpoints, service, std::move(endpoints));
  });
}

void MemoryEndpointsProvider::remove_endpoints(const ServiceName& service) {
  state_->services.change(service,
                          [&](State::Services& now) { return now.endpoints.erase(service) > 0; });
}

void MemoryEndpointsProvider::set_source_addresses(const ServiceName& service,
                                                   std::vector<std::string> addresses) {
  state_->services.change(service, [&](State::Services& now) {
    return put_or_erase(now.sources, service, std::move(addresses));
  });
}

void MemoryEndpointsProvider::put_workload(const Workload& workload) {
  state_->workloads.change(workload.name, [&](State::Workloads& now) {
    return put_or_erase(now.by_name, workload.name, workload);
  });
}

void MemoryEndpointsProvider::remove_workload(const WorkloadName& name) {
  state_->workloads.change(name,
                           [&](State::Workloads& now) { return now.by_name.erase(name) > 0; });
}

void MemoryEndpointsProvider::set_synced(bool synced) {
  state_->services.set(&State::Services::synced, synced);
}

void MemoryEndpointsProvider::set_healthy(bool healthy) {
  state_->services.set(&State::Services::healthy, healthy);
}

void MemoryEndpointsProvider::set_problems(std::vector<Problem> problems) {
  state_->workloads.set(&State::Workloads::problems, std::move(problems));
}

std::string MemoryEndpointsProvider::id() const { return state_->id; }

bool MemoryEndpointsProvider::has_synced() const {
  return state_->services.read(&State::Services::synced);
}

bool MemoryEndpointsProvider::healthy() const {
  return state_->services.read(&State::Services::healthy);
}

std::optional<std::vector<Endpoint>> MemoryEndpointsProvider::list_endpoints_for_service(
    const ServiceName& service) const {
  return state_->services.read([&](const State::Services& now) {
    const auto* endpoints = find_in(now.endpoints, service);
    return endpoints ? std::optional(*endpoints) : std::nullopt;
  });
}

std::vector<std::string> MemoryEndpointsProvider::list_source_addresses(
    const ServiceName& service) const {
  return state_->services.read([&](const State::Services& now) {
    const auto* addresses = find_in(now.sources, service);
    return addresses ? *addresses : std::vector<std::string>();
  });
}

Subscription MemoryEndpointsProvider::subscribe(
    std::function<void(const std::vector<ServiceName>& changed)> on_change) {
  return state_->services.subscribe(std::move(on_change));
}

std::vector<Workload> MemoryEndpointsProvider::list_workloads() const {
  return state_->workloads.read([](const State::Workloads& now) {
    std::vector<Workload> out;
    for (const auto& [name, workload] : now.by_name) out.push_back(workload);
    return out;
  });
}

std::optional<Workload> MemoryEndpointsProvider::find_workload(const WorkloadName& name) const {
  return state_->workloads.read([&](const State::Workloads& now) {
    const auto* workload = find_in(now.by_name, name);
    return workload ? std::optional(*workload) : std::nullopt;
  });
}

std::vector<Problem> MemoryEndpointsProvider::list_problems() const {
  return state_->workloads.read(&State::Workloads::problems);
}

Subscription MemoryEndpointsProvider::subscribe_workloads(
    std::function<void(const std::vector<WorkloadName>& changed)> on_change) {
  return state_->workloads.subscribe(std::move(on_change));
}

}  // namespace osm::inline v1::testing
