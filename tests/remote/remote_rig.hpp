// A remote provider over real gRPC, with the test's clock: `wait` lets virtual time pass and
// messages arrive.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/remote/provider.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "remote/provider_server.hpp"

namespace osm::remote_test {

using namespace std::chrono_literals;
using osm::testing::ProviderServer;

inline const ServiceName kBooks{"shop", "books"};
inline const ServiceName kMusic{"shop", "music"};
inline const TrustDomain kDomain("cluster.local");

inline Endpoint endpoint_at(int n, const std::string& account = "books") {
  Endpoint endpoint;
  endpoint.address = "10.0.0." + std::to_string(n);
  endpoint.port = Port(8080);
  endpoint.service_port = "http";
  endpoint.identity = {"shop", account};
  return endpoint;
}

struct Rig {
  std::string socket() const { return "unix:" + folder.file("provider.sock"); }

  // Precondition: `options` are complete.
  remote::RemoteProvider& start() {
    auto made = remote::make_remote_provider(options, {runtime, kDomain});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    provider = *std::move(made);
    services = provider->subscribe([this](const std::vector<ServiceName>& changed) {
      announced.insert(changed.begin(), changed.end());
      ++announcements;
    });
    workloads = provider->subscribe_workloads([this](const std::vector<WorkloadName>& changed) {
      announced_workloads.insert(changed.begin(), changed.end());
    });
    return *provider;
  }

  bool wait(const std::function<bool()>& condition, std::chrono::milliseconds step = 20ms) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      executor.run_for(step);
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  bool wait_until_healthy() {
    return wait([this] { return provider->healthy(); });
  }
  bool lists(const ServiceName& service, const std::optional<std::vector<Endpoint>>& expected) {
    return wait([&] { return provider->list_endpoints_for_service(service) == expected; });
  }
  // The first problem that has `part`; empty: there is none yet.
  std::string problem(const std::string& part) const {
    for (const Problem& problem : provider->list_problems())
      if (problem.text().find(part) != std::string::npos) return problem.text();
    return {};
  }
  bool reports(const std::string& part) {
    const bool found = wait([&] { return !problem(part).empty(); });
    if (!found)
      for (const Problem& problem : provider->list_problems()) MESSAGE(problem.text());
    return found;
  }

  osm::testing::TemporaryDirectory folder;
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  RandomRng rng{1};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  Runtime runtime{executor, executor, clock, rng, log, metrics};
  remote::RemoteProviderOptions options{
      .name = "consul", .address = socket(), .allow = {{.ns = "shop"}}};
  std::set<ServiceName> announced;
  std::set<WorkloadName> announced_workloads;
  int announcements = 0;
  std::unique_ptr<remote::RemoteProvider> provider;
  Subscription services, workloads;  // last: they end first
};

}  // namespace osm::remote_test
