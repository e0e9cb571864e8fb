// An EndpointsProvider and WorkloadProvider in memory, for tests of their readers. It starts empty,
// synced and healthy. Setters notify subscribers in the caller's thread before they return; a
// setter that changes nothing does nothing.
//
// For all calls: Thread: any, but setters one at a time. Blocking: no, except for the subscribers'
// callbacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryEndpointsProvider final : public EndpointsProvider, public WorkloadProvider {
 public:
  explicit MemoryEndpointsProvider(std::string id = "memory");
  ~MemoryEndpointsProvider() override;

  // Sets a service's endpoints. An empty list: the service is known and has no endpoints.
  void set_endpoints(const ServiceName& service, std::vector<Endpoint> endpoints);
  // Makes the service unknown.
  void remove_endpoints(const ServiceName& service);

  // Sets the addresses behind a source Service of IngressBackends.
  void set_source_addresses(const ServiceName& service, std::vector<std::string> addresses);

  // Adds the workload, or replaces the one of that name.
  void put_workload(const Workload& workload);
  // Removes the workload. Unknown names are ignored.
  void remove_workload(const WorkloadName& name);

  // Set the result of has_synced() / healthy() / list_problems().
  void set_synced(bool synced);
  void set_healthy(bool healthy);
  void set_problems(std::vector<Problem> problems);

  std::string id() const override;
  bool has_synced() const override;
  bool healthy() const override;
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override;
  std::vector<std::string> list_source_addresses(const ServiceName& service) const override;
  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override;

  std::vector<Workload> list_workloads() const override;
  std::optional<Workload> find_workload(const WorkloadName& name) const override;
  std::vector<Problem> list_problems() const override;
  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
