// A control plane without an address is a catalog: it answers for the mesh and serves nobody.
#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "lib/run.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

const ServiceName kApi{"shop", "api"};
const ServiceIdentity kAccount = identity_of({"shop", "api"});

Endpoint endpoint_at(const char* address, bool healthy) {
  return {.address = address,
          .port = Port{8080},
          .service_port = "http",
          .identity = kAccount,
          .zone = {},
          .weight = {},
          .healthy = healthy};
}

TEST_SUITE("control_plane: a catalog without a server") {
  TEST_CASE("it answers for the mesh, listens nowhere and needs no CA") {
    SystemClock clock;
    RandomRng rng{osm::testing::seed()};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    osm::testing::ThreadExecutor executor{1};
    osm::testing::ThreadExecutor blocking{1};
    osm::testing::MemoryMeshSpec spec;
    osm::testing::MemoryEndpointsProvider provider;
    osm::testing::MemoryCertificateManager certificates{clock};
    certificates.set_failure(Error{ErrorCode::kUnavailable, "the CA is away"});
    spec.put_namespace("shop");
    Service api;
    api.name = kApi;
    api.cluster_ip = "10.96.0.1";
    api.ports = {{"http", Port{80}, Port{8080}, Protocol::kHttp}};
    spec.put(api);
    provider.set_endpoints(kApi, {endpoint_at("10.0.0.7", true), endpoint_at("10.0.0.8", false)});

    auto started = ControlPlane::start({.spec = spec,
                                        .providers = {{&provider}},
                                        .workload_providers = {&provider},
                                        .certificates = certificates,
                                        .runtime = {executor, blocking, clock, rng, log, metrics},
                                        .ads_address = ""});
    REQUIRE(started.ok());
    const ControlPlane& mesh = **started;
    REQUIRE(osm::testing::wait_until([&] { return mesh.status().waiting_for.empty(); }));
    CHECK(mesh.ads_address().empty());
    CHECK(mesh.list_proxies().empty());
    CHECK(certificates.issued() == 0);

    // Clients would be sent the healthy one alone; both belong to the account.
    const auto endpoints = mesh.catalog().list_endpoints_for_service(kApi);
    REQUIRE(endpoints.ok());
    REQUIRE(endpoints->size() == 1);
    CHECK(endpoints->front().endpoint.address == "10.0.0.7");
    CHECK(endpoints->front().provider == provider.id());
    const auto identities = mesh.catalog().list_service_identities_for_service(kApi);
    REQUIRE(identities.ok());
    CHECK(*identities == std::vector<ServiceIdentity>{kAccount});

    // It follows its sources.
    provider.set_endpoints(kApi, {endpoint_at("10.0.0.8", true)});
    CHECK(osm::testing::wait_until([&] {
      const auto now = mesh.catalog().list_endpoints_for_service(kApi);
      return now.ok() && now->size() == 1 && now->front().endpoint.address == "10.0.0.8";
    }));
    CHECK((*started)->shutdown(5s).ok());
  }
}

}  // namespace
