// Two meshes in one process, in memory and on this program's own threads.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "mesh: not so: %s\n", what.c_str());
  std::exit(1);
}

const osm::ServiceName kStore{"shop", "store"};

struct Surroundings {
  osm::SystemClock clock;
  osm::RandomRng rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::ThreadExecutor executor{2};
  osm::testing::ThreadExecutor blocking{1};
};

class Mesh {
 public:
  Mesh(Surroundings& around, const std::string& domain) {
    spec_.put_namespace("shop");
    spec_.put_service_account({"shop", "store"});
    osm::ServicePort port;
    port.port = osm::Port{80};
    port.target_port = osm::Port{8080};
    osm::Service service;
    service.name = kStore;
    service.cluster_ip = "10.96.0.1";
    service.ports = {port};
    spec_.put(service);
    osm::Endpoint endpoint;
    endpoint.address = "10.0.0.7";
    endpoint.port = osm::Port{8080};
    endpoint.identity = {"shop", "store"};
    provider_.set_endpoints(kStore, {endpoint});

    auto ca = osm::certificate::load_or_create_directory_ca(
        {.directory = domain, .trust_domain = osm::TrustDomain(domain), .clock = around.clock});
    expect(ca.ok(), "a CA in ./" + domain);
    certificates_ =
        osm::certificate::make_manager({.issuer = std::move(ca).value(),
                                        .runtime = {around.executor, around.blocking, around.clock,
                                                    around.rng, around.log, around.metrics}});
    auto started =
        osm::ControlPlane::start({.spec = spec_,
                                  .providers = {{.provider = &provider_, .required = true}},
                                  .workload_providers = {&provider_},
                                  .certificates = *certificates_,
                                  .runtime = {around.executor, around.blocking, around.clock,
                                              around.rng, around.log, around.metrics},
                                  .trust_domain = osm::TrustDomain(domain),
                                  .ads_address = "127.0.0.1:0"});
    if (!started.ok()) expect(false, started.error().text());
    control_plane_ = std::move(started).value();
  }

  osm::ControlPlane& control_plane() { return *control_plane_; }

  void add_endpoint(osm::Endpoint endpoint) {
    auto endpoints = *provider_.list_endpoints_for_service(kStore);
    endpoints.push_back(std::move(endpoint));
    provider_.set_endpoints(kStore, std::move(endpoints));
  }

  std::size_t endpoints() {
    const auto listed = control_plane_->catalog().list_endpoints_for_service(kStore);
    return listed.ok() ? listed->size() : 0;
  }

 private:
  osm::testing::MemoryMeshSpec spec_;
  osm::testing::MemoryEndpointsProvider provider_;
  std::unique_ptr<osm::certificate::Manager> certificates_;
  std::unique_ptr<osm::ControlPlane> control_plane_;
};

}  // namespace

int main() {
  Surroundings around;
  {
    Mesh one(around, "one.example");
    Mesh two(around, "two.example");
    expect(one.control_plane().ads_address() != two.control_plane().ads_address(),
           "two meshes, two addresses");
    expect(osm::testing::wait_until([&] { return one.endpoints() == 1 && two.endpoints() == 1; }),
           "both meshes know the store's endpoint");

    osm::Endpoint endpoint;
    endpoint.address = "10.0.0.8";
    endpoint.port = osm::Port{8080};
    endpoint.identity = {"shop", "store"};
    one.add_endpoint(endpoint);
    expect(osm::testing::wait_until([&] { return one.endpoints() == 2; }), "a second endpoint");
    expect(two.endpoints() == 1, "of one mesh only");

    const auto stopped = one.control_plane().shutdown(std::chrono::seconds(5));
    expect(stopped.ok(), "the first mesh ends in time");
    expect(two.endpoints() == 1, "the second goes on");
  }
  std::puts("mesh: ok");
  return 0;  // protos.cpp calls this by another name
}
