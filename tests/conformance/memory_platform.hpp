// The memory provider's platform, as the suite wants it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// The content of a platform, visible to its provider now or not.
using PlatformContent = std::map<ServiceName, std::vector<Endpoint>>;

// The workloads of a platform, and the endpoints that the suite wants for them.
using PlatformWorkloads = std::map<WorkloadName, Workload>;

inline std::vector<Endpoint> endpoints_behind(const ServiceName& service,
                                              const PlatformWorkloads& workloads) {
  std::vector<Endpoint> out;
  for (const auto& [name, workload] : workloads) {
    if (std::find(workload.services.begin(), workload.services.end(), service) ==
        workload.services.end())
      continue;
    Endpoint endpoint;
    endpoint.address = workload.address;
    endpoint.port = Port(8080);
    endpoint.service_port = "http";
    endpoint.identity = identity_of(workload.account);
    out.push_back(std::move(endpoint));
  }
  return out;
}

// The only service that the suite puts workloads behind.
inline const ServiceName kServiceOfWorkloads{"shop", "books"};

// The memory provider: its setters are its platform.
class MemoryPlatform : public ProviderPlatform {
 public:
  PlatformTraits traits() const override {
    PlatformTraits traits;
    traits.workloads = true;
    return traits;
  }
  std::unique_ptr<EndpointsProvider> start(const Runtime&) override {
    auto memory = std::make_unique<MemoryEndpointsProvider>();
    memory_ = memory.get();
    memory_->set_synced(false);
    set_reachable(reachable_);
    return memory;
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    const auto canonical = parse_service_name(service.ns, service.name);
    if (!canonical.ok() || *canonical != service) return;  // this platform refuses such names
    content_[service] = endpoints;
    if (memory_ && reachable_) memory_->set_endpoints(service, endpoints);
  }
  void remove_service(const ServiceName& service) override {
    content_.erase(service);
    if (!memory_ || !reachable_) return;
    memory_->remove_endpoints(service);
  }
  void set_workload(const Workload& workload) override {
    workloads_[workload.name] = workload;
    if (memory_ && reachable_) memory_->put_workload(workload);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
  }
  void remove_workload(const WorkloadName& name) override {
    workloads_.erase(name);
    if (memory_ && reachable_) memory_->remove_workload(name);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
  }
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!memory_) return;
    if (reachable) {
      for (const Workload& known : memory_->list_workloads())
        if (!workloads_.contains(known.name)) memory_->remove_workload(known.name);
      for (const auto& [name, workload] : workloads_) memory_->put_workload(workload);
      for (const auto& [service, endpoints] : seen_)
        if (!content_.contains(service)) memory_->remove_endpoints(service);
      for (const auto& [service, endpoints] : content_) memory_->set_endpoints(service, endpoints);
      memory_->set_synced(true);
    } else {
      seen_ = content_;
    }
    memory_->set_healthy(reachable);
  }

 private:
  PlatformContent content_;
  PlatformWorkloads workloads_;
  PlatformContent seen_;  // when the platform went away
  bool reachable_ = true;
  MemoryEndpointsProvider* memory_ = nullptr;
};

}  // namespace osm::inline v1::testing
