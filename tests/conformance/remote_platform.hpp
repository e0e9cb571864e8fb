// A process that serves the providers' protocol over a Unix socket, in the test's own process.
#pragma once

#include <memory>

#include "lib/temporary_directory.hpp"
#include "memory_platform.hpp"
#include "osm/remote/provider.hpp"
#include "osm/testing/provider_conformance.hpp"
#include "remote/provider_server.hpp"

namespace osm::inline v1::testing {

class RemotePlatform final : public ProviderPlatform {
 public:
  RemotePlatform() { server_.start(); }

  PlatformTraits traits() const override {
    PlatformTraits traits;
    traits.workloads = true;
    return traits;
  }
  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    // The suite's clock is much faster than the messages of a process.
    auto made = remote::make_remote_provider({.name = "remote",
                                              .address = socket(),
                                              .allow = {{.ns = "shop"}},
                                              .heartbeat = std::chrono::minutes(20)},
                                             {runtime, TrustDomain("cluster.local")});
    REQUIRE(made.ok());
    return *std::move(made);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    server_.set(service, endpoints);
  }
  void remove_service(const ServiceName& service) override { server_.set(service, std::nullopt); }
  void set_workload(const Workload& workload) override {
    workloads_[workload.name] = workload;
    server_.set(workload.name, workload);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
  }
  void remove_workload(const WorkloadName& name) override {
    workloads_.erase(name);
    server_.set(name, std::nullopt);
    set_endpoints(kServiceOfWorkloads, endpoints_behind(kServiceOfWorkloads, workloads_));
  }
  void set_reachable(bool reachable) override { reachable ? server_.start() : server_.stop(); }
  void pump() override { server_.send_heartbeat(); }

 private:
  std::string socket() const { return "unix:" + folder_.file("provider.sock"); }

  PlatformWorkloads workloads_;
  TemporaryDirectory folder_;
  ProviderServer server_{socket()};
};

inline std::unique_ptr<ProviderPlatform> make_remote_platform() {
  return std::make_unique<RemotePlatform>();
}

}  // namespace osm::inline v1::testing
