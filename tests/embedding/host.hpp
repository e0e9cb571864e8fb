// A program that embeds libosm, for tests of what the library does to it.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"

namespace osm::embedding_test {

using osm::testing::TemporaryDirectory;

struct Host;
// A mesh on what the host lends, listening on `address`; empty: nowhere, and without gRPC.
inline Result<std::unique_ptr<ControlPlane>> start(Host& host, const std::string& address);

// Everything a host lends to one mesh of one service, and the mesh.
struct Host {
  explicit Host(Executor& lent, const std::string& domain_name = "one.example",
                const std::string& address = "")
      : executor(lent), domain(domain_name) {
    auto ca = certificate::load_or_create_directory_ca({directory.file("ca"), domain, clock});
    REQUIRE(ca.ok());
    certificates =
        certificate::make_manager({*std::move(ca), {executor, executor, clock, rng, log, metrics}});
    Service service;
    service.name = {"shop", domain_name.substr(0, domain_name.find('.'))};
    service.cluster_ip = "10.96.0.1";
    service.ports = {{"http", Port{80}, Port{8080}, Protocol::kHttp}};
    spec.put(service);
    auto started = start(*this, address);
    REQUIRE_MESSAGE(started.ok(), started.error().message);
    mesh = std::move(*started);
  }

  bool serves() const {
    return osm::testing::wait_until([&] { return mesh->status().waiting_for.empty(); });
  }
  TemporaryDirectory directory;
  Executor& executor;
  TrustDomain domain;
  SystemClock clock;
  RandomRng rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"memory"};
  std::unique_ptr<certificate::Manager> certificates;
  std::unique_ptr<ControlPlane> mesh;
};

inline Result<std::unique_ptr<ControlPlane>> start(Host& host, const std::string& address) {
  return ControlPlane::start(
      {.spec = host.spec,
       .providers = {{&host.provider}},
       .workload_providers = {&host.provider},
       .certificates = *host.certificates,
       .runtime = {host.executor, host.executor, host.clock, host.rng, host.log, host.metrics},
       .trust_domain = host.domain,
       .ads_address = address});
}

}  // namespace osm::embedding_test
