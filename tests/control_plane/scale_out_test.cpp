// A scale-out of 200 pods at two replicas, some of which never acknowledge, delays no client by
// more than five seconds, and no client hears of a pod that does not serve before that.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ads/shared_board.hpp"
#include "nack_provenance/provenance_rig.hpp"

using namespace osm;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// A replica whose catalog knows which proxies are ready, as a control plane's does.
struct ReadyReplica {
  ReadyReplica(Runtime lent, MeshSpec& spec, osm::testing::MemoryEndpointsProvider& provider,
               model::SecretSource& secrets, ProxyRegistry& registry, ads_test::Shared& shared,
               const std::string& name)
      : board(shared, name),
        readiness(&board, lent.clock),
        loop({.spec = spec,
              .providers = {{&provider}},
              .workload_providers = {&provider},
              .trust_domain = ads_test::kDomain,
              .runtime = lent,
              .readiness = &readiness}) {
    auto started = ads::AdsServer::start(
        {.address = "", .accepted_domains = {ads_test::kDomain}, .server_certificate = {}},
        {.runtime = lent,
         .snapshots = loop.snapshots(),
         .secrets = secrets,
         .registry = registry,
         .readiness = &readiness});
    REQUIRE(started.ok());
    server = std::move(*started);
  }
  ~ReadyReplica() { static_cast<void>(server->shutdown(0ms).ok()); }

  ads_test::SharedBoard board;
  ads::ReadinessTable readiness;
  catalog::MeshLoop loop;
  std::unique_ptr<ads::AdsServer> server;
};

constexpr int kJoining = 200;

// A store of one pod, and a client of it at each replica.
struct ScaleOut {
  ScaleOut() {
    spec.put_namespace(values::kNs);
    spec.put(values::service("store", "10.9.0.1"));
    spec.put(values::routes("store", {"read"}));
    spec.put(values::target("store", "store", {"client"}, {values::http_rule("store", {"read"})}));
    for (const char* name : {"controller-a", "controller-b"})
      replicas.push_back(
          std::make_unique<ReadyReplica>(runtime, spec, provider, secrets, registry, shared, name));
    for (int pod = -2; pod <= 0; ++pod) put(pod);
    executor.run_for(1s);
    clients = {&connect(-2), &connect(-1)};
    connect(0);
    list(1);
    run_for(3s);
  }
  ~ScaleOut() {
    for (auto& proxy : proxies) proxy->disconnect();
  }

  // All are as long as each other: none is the beginning of another one.
  static std::string address_of(int pod) {
    return "10." + std::to_string(101 + pod / 100) + ".1." + std::to_string(102 + pod % 100);
  }
  static std::string account_of(int pod) { return pod < 0 ? "client" : "store"; }
  static ProxyId id_of(int pod) {
    return ProxyId("00000000-0000-4000-8000-0000000" + std::to_string(10'002 + pod));
  }
  // The mesh knows a workload before its proxy connects. Negative: a client.
  void put(int pod) {
    std::vector<std::string> services;
    if (pod >= 0) services.push_back("store");
    provider.put_workload(values::workload("w" + id_of(pod).str(), id_of(pod).str(),
                                           account_of(pod), address_of(pod), services));
  }
  // Pods with even numbers are at one replica and speak SotW, the others delta at the other.
  EnvoyProxy& connect(int pod) {
    const bool even = pod % 2 == 0;
    proxies.push_back(std::make_unique<EnvoyProxy>(even ? XdsVariant::kSotw : XdsVariant::kDelta,
                                                   executor, random));
    const auto certificate = ca.proxy(id_of(pod), values::identity(account_of(pod)));
    proxies.back()->connect(*replicas[even ? 0 : 1]->server, proxies.size(),
                            {{certificate->subject.spiffe_id.str()},
                             certificate->subject.common_name.str(),
                             certificate->chain_pem,
                             "ipv4:" + address_of(pod) + ":40000"});
    return *proxies.back();
  }
  // The platform lists the first pods as endpoints.
  void list(int count) {
    std::vector<Endpoint> endpoints;
    for (int pod = 0; pod < count; ++pod)
      endpoints.push_back(values::served_at(address_of(pod), "store"));
    provider.set_endpoints(values::service_name("store"), endpoints);
  }
  void run_for(std::chrono::nanoseconds time) {
    for (; time > 0ms; time -= 50ms) {
      executor.run_for(50ms);
      for (bool any = true; any;) {
        any = false;
        for (auto& proxy : proxies) any |= proxy->step();
      }
    }
  }
  // The pods that a client's Envoy has as endpoints.
  std::set<int> known_to(const EnvoyProxy& client) const {
    std::set<int> found;
    for (const auto& [name, resource] : client.envoy.applied(XdsType::kEndpoint))
      for (int pod = 0; pod <= kJoining; ++pod)
        if (resource->any.find(address_of(pod)) != std::string::npos) found.insert(pod);
    return found;
  }

  std::mt19937_64 random = osm::testing::seeded();
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  Runtime runtime{executor, executor, clock, rng, log, metrics};
  ads_test::TestCa ca{clock};
  ads_test::FakeSecrets secrets{ca};
  ads_test::FakeRegistry registry;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"memory"};
  ads_test::Shared shared;
  std::vector<std::unique_ptr<ReadyReplica>> replicas;
  std::vector<std::unique_ptr<EnvoyProxy>> proxies;
  std::vector<EnvoyProxy*> clients;
};

// Every tenth pod of each replica has a silent proxy, and every tenth one that refuses its
// listener.
bool is_silent(int pod) { return pod % 20 == 4 || pod % 20 == 5; }
bool refuses(int pod) { return pod % 20 == 14 || pod % 20 == 15; }

}  // namespace

TEST_SUITE("control_plane::scale-out") {
  TEST_CASE("200 pods that join at once reach the clients of both replicas within five seconds") {
    ScaleOut mesh;
    for (const EnvoyProxy* client : mesh.clients) REQUIRE(mesh.known_to(*client) == std::set{0});
    std::set<int> ready{0};
    std::set<int> all{0};
    for (int pod = 1; pod <= kJoining; ++pod) {
      mesh.put(pod);
      all.insert(pod);
      if (!is_silent(pod) && !refuses(pod)) ready.insert(pod);
    }
    mesh.executor.run_for(1s);
    std::vector<EnvoyProxy*> joined;
    for (int pod = 1; pod <= kJoining; ++pod) {
      EnvoyProxy& proxy = mesh.connect(pod);
      proxy.silent = true;
      if (refuses(pod))
        proxy.envoy.refuses = [](const auto& one) { return one.type == XdsType::kListener; };
      joined.push_back(&proxy);
    }
    mesh.run_for(3s);  // both replicas know by the board who is connected

    const SteadyTime begun = mesh.clock.steady_now();
    mesh.list(1 + kJoining);
    mesh.run_for(1s);
    for (const EnvoyProxy* client : mesh.clients) CHECK(mesh.known_to(*client) == std::set{0});

    // All proxies but the silent ones ask for their configuration.
    for (int pod = 1; pod <= kJoining; ++pod)
      joined[static_cast<std::size_t>(pod - 1)]->silent = is_silent(pod);
    mesh.run_for(ads::ReadinessTable::kSettle + 150ms);
    for (const EnvoyProxy* client : mesh.clients)
      CHECK(mesh.known_to(*client).size() >= 1 + ready.size() / 2);  // those of its own replica
    mesh.run_for(3s);
    for (const EnvoyProxy* client : mesh.clients) CHECK(mesh.known_to(*client) == ready);

    mesh.run_for(5s + 50ms - (mesh.clock.steady_now() - begun));  // and a debounced build
    for (const EnvoyProxy* client : mesh.clients) {
      CHECK(mesh.known_to(*client) == all);
      CHECK(client->envoy.received[ads::index_of(XdsType::kEndpoint)] <= 6);
    }
    CHECK(mesh.shared.writes <= 20);
  }
}
