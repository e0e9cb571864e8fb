// The memory provider's platform, as the suite wants it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// The content of a platform, visible to its provider now or not.
using PlatformContent = std::map<ServiceName, std::vector<Endpoint>>;

// The memory provider: its setters are its platform.
class MemoryPlatform : public ProviderPlatform {
 public:
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
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!memory_) return;
    if (reachable) {
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
  PlatformContent seen_;  // when the platform went away
  bool reachable_ = true;
  MemoryEndpointsProvider* memory_ = nullptr;
};

}  // namespace osm::inline v1::testing
