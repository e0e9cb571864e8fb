// An endpoint whose proxy is connected is announced after that proxy's acknowledgement, five
// seconds at most; others at once; an announced one is never withdrawn.
#include "catalog/readiness_gate.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "lib/run.hpp"
#include "mesh_values.hpp"
#include "model/own_ports.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "readiness_fixture.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

// Machines behind Services, whose endpoints and workloads change one by one.
struct Mesh {
  osm::testing::ManualClock clock;
  FakeReadiness proxies;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  ReadinessGate gate{proxies, clock};
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  std::vector<Subscription> subscriptions;
  std::map<std::string, std::set<int>> endpoints;  // machines by Service
  std::map<int, std::set<std::string>> services;   // of the workload of each machine
  model::MeshSnapshot last;

  explicit Mesh(const std::vector<std::string>& names = {"store"}, int machines = 3) {
    builder.filter_announcements(gate);
    subscriptions.push_back(
        vm.subscribe([this](const auto& changed) { builder.endpoints_changed(changed); }));
    subscriptions.push_back(vm.subscribe_workloads(
        [this](const auto& changed) { builder.workloads_changed(changed); }));
    spec.put_namespace(kNs);
    int number = 0;
    for (const std::string& name : names) {
      ++number;
      spec.put(service(name, "10.1.0." + std::to_string(number),
                       {service_port("http", 80, 8080 + number)}));
      list_endpoints(name);
    }
    for (int machine = 0; machine < machines; ++machine) put_workload(machine);
  }

  static std::string address(int machine) {
    return "10.0." + std::to_string(machine / 200) + "." + std::to_string(machine % 200 + 1);
  }
  static model::ProxyKey key(int machine) { return {kNs, ProxyId("u" + std::to_string(machine))}; }
  Port target_port(const std::string& name) const {
    return std::get<Port>(spec.get_service(service_name(name))->ports.front().target_port);
  }

  void list_endpoints(const std::string& name, std::optional<std::uint32_t> weight = {}) {
    std::vector<Endpoint> listed;
    for (const int machine : endpoints[name]) {
      listed.push_back(served_at(address(machine), "store", number(target_port(name))));
      listed.back().weight = weight;
    }
    vm.set_endpoints(service_name(name), std::move(listed));
  }
  Workload workload_of(int machine) {
    return workload("m" + std::to_string(machine), "u" + std::to_string(machine), "store",
                    address(machine), {services[machine].begin(), services[machine].end()});
  }
  void put_workload(int machine) { vm.put_workload(workload_of(machine)); }

  void join(int machine, const std::string& name = "store") {
    services[machine].insert(name);
    endpoints[name].insert(machine);
    put_workload(machine);
    list_endpoints(name);
  }
  void leave(int machine, const std::string& name = "store") {
    services[machine].erase(name);
    endpoints[name].erase(machine);
    put_workload(machine);
    list_endpoints(name);
  }
  // The proxy acknowledges what the newest generation has for it.
  void acknowledge(int machine) { proxies.acknowledge(key(machine), own_ports(machine)); }
  std::vector<MeshService> own_ports(int machine) {
    return model::own_ports_of(last.services, workload_of(machine)).ports;
  }

  // Result: the generations whose endpoints became complete.
  std::set<std::uint64_t> build() {
    const auto fresh = builder.build();
    if (fresh) last = *fresh;
    return gate.end(builder.generation(), fresh != nullptr);
  }
  bool announced(int machine, const std::string& name = "store") const {
    const auto known = last.endpoints.find(service_name(name));
    return known &&
           std::any_of(known->endpoints.begin(), known->endpoints.end(),
                       [&](const Endpoint& one) { return one.address == address(machine); });
  }
  std::size_t announced_in(const std::string& name = "store") const {
    const auto known = last.endpoints.find(service_name(name));
    return known ? known->endpoints.size() : 0;
  }
};

}  // namespace

TEST_SUITE("catalog::ReadinessGate") {
  TEST_CASE("everything in the first generation is announced") {
    Mesh mesh;
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    CHECK(mesh.announced(0));
    CHECK(mesh.gate.waiting().endpoints == 0);
  }

  TEST_CASE("an endpoint whose proxy is connected is announced after its acknowledgement") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    CHECK(mesh.gate.waiting().addresses ==
          std::set{std::pair(service_name("store"), Mesh::address(0))});
    CHECK_FALSE(mesh.gate.is_due());
    mesh.clock.advance(1s);
    mesh.acknowledge(0);
    CHECK(mesh.gate.due().services == std::set{service_name("store")});
    mesh.build();
    CHECK(mesh.announced(0));
    CHECK(mesh.last.changes.endpoints == std::set{service_name("store")});
    CHECK(mesh.gate.endpoints_told_late() == 0);
  }

  TEST_CASE("without an acknowledgement it is announced after five seconds") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    CHECK(mesh.gate.deadline() == mesh.clock.steady_now() + 5s);
    mesh.clock.advance(4999ms);
    CHECK_FALSE(mesh.gate.is_due());
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.clock.advance(1ms);
    CHECK(mesh.gate.due().services.size() == 1);
    mesh.build();
    CHECK(mesh.announced(0));
    CHECK(mesh.gate.endpoints_told_late() == 1);
    CHECK_FALSE(mesh.gate.deadline());
  }

  TEST_CASE("an endpoint of an unknown proxy, or without a workload, is announced at once") {
    Mesh mesh;
    mesh.build();
    mesh.join(0);
    mesh.endpoints["store"].insert(77);  // of no workload
    mesh.list_endpoints("store");
    mesh.build();
    CHECK(mesh.announced(0));
    CHECK(mesh.announced(77));
  }

  TEST_CASE("a proxy that has the ports already makes nothing wait") {
    Mesh mesh;
    mesh.join(0);
    mesh.build();
    mesh.acknowledge(0);
    mesh.endpoints["store"].clear();  // its application fails a health check
    mesh.list_endpoints("store");
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.endpoints["store"].insert(0);
    mesh.list_endpoints("store");
    mesh.build();
    CHECK(mesh.announced(0));
  }

  TEST_CASE("an endpoint whose workload comes later waits for the workload's ports") {
    Mesh mesh;
    mesh.build();
    mesh.acknowledge(0);  // of no ports
    mesh.endpoints["store"].insert(0);
    mesh.list_endpoints("store");
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.services[0].insert("store");
    mesh.put_workload(0);
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.acknowledge(0);
    mesh.build();
    CHECK(mesh.announced(0));
  }

  TEST_CASE(
      "a proxy that connects, disconnects or changes after the announcement withdraws nothing") {
    Mesh mesh({"store", "stock"});
    mesh.build();
    mesh.join(0);
    mesh.build();
    REQUIRE(mesh.announced(0));
    const auto check = [&] {
      mesh.list_endpoints("store", 7);  // a change, so that the endpoints are settled again
      mesh.build();
      CHECK(mesh.announced(0));
      mesh.list_endpoints("store", 8);
      mesh.build();
      CHECK(mesh.announced(0));
    };
    mesh.proxies.connect(Mesh::key(0));
    check();
    mesh.join(0, "stock");  // other ports, which it has not acknowledged
    check();
    CHECK_FALSE(mesh.announced(0, "stock"));
    mesh.proxies.disconnect(Mesh::key(0));
    check();
  }

  TEST_CASE(
      "a proxy that disconnects while its endpoint waits has the rest of the time to return") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    mesh.clock.advance(2s);
    mesh.proxies.disconnect(Mesh::key(0));
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.clock.advance(3s);
    mesh.build();
    CHECK(mesh.announced(0));
  }

  TEST_CASE("at a new target port an endpoint waits, and stays at the former one meanwhile") {
    Mesh mesh;
    mesh.join(0);
    mesh.join(1);
    mesh.build();
    for (const int machine : {0, 1}) mesh.acknowledge(machine);
    const auto ports = [&] {
      std::map<std::string, std::uint16_t> found;
      for (const Endpoint& one : mesh.last.endpoints.find(service_name("store"))->endpoints)
        CHECK(found.emplace(one.address, number(one.port)).second);
      return found;
    };
    const std::string first = Mesh::address(0), second = Mesh::address(1);
    CHECK(ports() == std::map<std::string, std::uint16_t>{{first, 8081}, {second, 8081}});
    mesh.spec.put(service("store", "10.1.0.1", {service_port("http", 80, 9090)}));
    mesh.list_endpoints("store");
    for (int builds = 0; builds < 2; ++builds) {
      mesh.build();
      CHECK(ports() == std::map<std::string, std::uint16_t>{{first, 8081}, {second, 8081}});
      CHECK(mesh.last.endpoints.find(service_name("store"))->providers.of_each ==
            std::vector<std::string>{"vm", "vm"});
      mesh.list_endpoints("store", builds);
    }
    mesh.acknowledge(0);
    mesh.build();
    CHECK(ports() == std::map<std::string, std::uint16_t>{{first, 9090}, {second, 8081}});
    mesh.leave(1);
    mesh.build();
    CHECK(ports() == std::map<std::string, std::uint16_t>{{first, 9090}});
  }

  TEST_CASE("members that left go while another one stays at its former port") {
    Mesh mesh;
    mesh.join(0);
    mesh.join(1);
    mesh.build();
    for (const int machine : {0, 1}) mesh.acknowledge(machine);
    mesh.spec.put(service("store", "10.1.0.1", {service_port("http", 80, 9090)}));
    mesh.leave(1);
    mesh.build();
    CHECK(mesh.announced(0));
    CHECK_FALSE(mesh.announced(1));
  }

  TEST_CASE("members that left stay until one of the new ones is ready") {
    Mesh mesh;
    mesh.join(0);
    mesh.build();
    mesh.acknowledge(0);
    mesh.proxies.connect(Mesh::key(1));
    mesh.proxies.connect(Mesh::key(2));
    const auto replace = [&] {  // as a changed selector does
      mesh.leave(0);
      mesh.join(1);
      mesh.join(2);
      mesh.build();
    };
    SUBCASE("") {
      replace();
      CHECK(mesh.announced(0));
      CHECK(mesh.announced_in() == 1);
      mesh.list_endpoints("store", 3);
      mesh.build();
      CHECK(mesh.announced_in() == 1);
      mesh.acknowledge(2);
      mesh.build();
      CHECK(mesh.announced(2));
      CHECK(mesh.announced_in() == 1);
    }
    SUBCASE("for five seconds") {
      replace();
      mesh.clock.advance(5s);
      mesh.build();
      CHECK_FALSE(mesh.announced(0));
      CHECK(mesh.announced_in() == 2);
    }
    SUBCASE("unless another namespace has their address") {
      replace();
      Workload machine = mesh.workload_of(0);
      machine.claimed_by = {kinds::kVirtualMachine, kNs, "m0"};
      mesh.vm.put_workload(machine);
      mesh.build();
      CHECK(mesh.announced(0));
      Workload pod = workload("pod", "u9", "store", Mesh::address(0), {});
      pod.name.ns = pod.account.ns = "other";
      mesh.spec.put_namespace("other");
      mesh.vm.put_workload(pod);
      mesh.build();
      CHECK(mesh.announced_in() == 0);
    }
    SUBCASE("unless their workload is gone") {
      replace();
      mesh.vm.remove_workload({kNs, "m0"});
      mesh.list_endpoints("store", 4);
      mesh.build();
      CHECK(mesh.announced_in() == 0);
    }
  }

  TEST_CASE("an endpoint that disappears while it waits is forgotten, and waits anew") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    mesh.clock.advance(4s);
    mesh.leave(0);
    mesh.build();
    CHECK(mesh.gate.waiting().endpoints == 0);
    mesh.join(0);
    mesh.build();
    mesh.clock.advance(4s);
    mesh.build();
    CHECK_FALSE(mesh.announced(0));
    mesh.clock.advance(1s);
    mesh.build();
    CHECK(mesh.announced(0));
  }

  TEST_CASE("a Service that goes and comes forgets what waited") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    mesh.spec.remove({kinds::kService, kNs, "store"});
    mesh.build();
    CHECK(mesh.gate.waiting().endpoints == 0);
    CHECK_FALSE(mesh.announced(0));
  }

  TEST_CASE("weights change while others of the Service wait, and nobody else waits") {
    Mesh mesh;
    mesh.join(1);
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    mesh.build();
    mesh.list_endpoints("store", 9);
    mesh.build();
    CHECK(mesh.announced_in() == 1);
    CHECK(mesh.last.endpoints.find(service_name("store"))->endpoints.front().weight == 9u);
  }

  TEST_CASE("the generation with which an endpoint came is complete when it is announced") {
    Mesh mesh;
    mesh.build();
    mesh.proxies.connect(Mesh::key(0));
    mesh.join(0);
    CHECK(mesh.build().empty());
    CHECK(mesh.last.generation == 2);
    CHECK(mesh.gate.waiting().generations == std::set<std::uint64_t>{2});
    mesh.acknowledge(0);
    CHECK(mesh.build() == std::set<std::uint64_t>{2});
    CHECK(mesh.last.generation == 3);
  }

  TEST_CASE(
      "a scale-out of 200 pods is announced as they acknowledge, and whole after five seconds") {
    constexpr int kPods = 200;
    Mesh mesh({"store"}, kPods);
    mesh.build();
    for (int pod = 0; pod < kPods; ++pod) {
      mesh.proxies.connect(Mesh::key(pod));
      mesh.services[pod].insert("store");
      mesh.put_workload(pod);
      mesh.endpoints["store"].insert(pod);
    }
    mesh.list_endpoints("store");
    mesh.build();
    CHECK(mesh.announced_in() == 0);
    for (int pod = 0; pod < kPods / 2; ++pod) mesh.acknowledge(pod);
    mesh.build();
    CHECK(mesh.announced_in() == kPods / 2);
    mesh.clock.advance(5s);
    mesh.build();
    CHECK(mesh.announced_in() == kPods);
    CHECK(mesh.gate.endpoints_told_late() == kPods / 2);
  }

  // Random joins, leaves, connections and acknowledgements, in any order of the sources' events.
  TEST_CASE("after any sequence of events the rules hold for each endpoint") {
    auto random = osm::testing::seeded();
    CAPTURE(osm::testing::seed());
    const std::vector<std::string> names{"store", "stock", "books"};
    constexpr int kMachines = 4;
    const auto below = [&](int limit) {
      return std::uniform_int_distribution<int>(0, limit - 1)(random);
    };
    for (int round = 0; round < osm::testing::steps(30, 2000); ++round) {
      Mesh mesh(names, kMachines);
      using Place = std::pair<std::string, int>;
      std::map<Place, SteadyTime> came;  // existing endpoints
      std::set<Place> known;             // after the last build
      std::set<int> connected;
      bool first = true;
      for (int step = 0; step < 60; ++step) {
        const int machine = below(kMachines);
        const std::string& name = names[static_cast<std::size_t>(below(3))];
        switch (below(9)) {
          case 0:
            mesh.join(machine, name);
            break;
          case 1:
            mesh.leave(machine, name);
            break;
          case 2:  // the endpoint's event alone
            if (!mesh.endpoints[name].erase(machine)) mesh.endpoints[name].insert(machine);
            mesh.list_endpoints(name);
            break;
          case 3:  // the workload's event alone
            if (!mesh.services[machine].erase(name)) mesh.services[machine].insert(name);
            mesh.put_workload(machine);
            break;
          case 4:
            mesh.proxies.connect(Mesh::key(machine));
            connected.insert(machine);
            break;
          case 5:
            mesh.proxies.disconnect(Mesh::key(machine));
            connected.erase(machine);
            break;
          case 6:
            if (connected.contains(machine)) mesh.acknowledge(machine);
            break;
          case 7:
            mesh.clock.advance(std::chrono::milliseconds(below(4000)));
            break;
          default:
            mesh.list_endpoints(name, static_cast<std::uint32_t>(1 + below(5)));
        }
        if (below(3) == 0) continue;  // the next build sees several events
        mesh.build();
        const SteadyTime now = mesh.clock.steady_now();
        for (const std::string& service : names) {
          for (int one = 0; one < kMachines; ++one) {
            const Place place{service, one};
            CAPTURE(service);
            CAPTURE(one);
            const bool shown = mesh.announced(one, service);
            if (!mesh.endpoints[service].contains(one)) {
              const std::set<int>& listed = mesh.endpoints[service];
              const bool all_wait =
                  !listed.empty() && std::none_of(listed.begin(), listed.end(), [&](int other) {
                    return mesh.announced(other, service);
                  });
              CHECK(shown == (known.contains(place) && all_wait));
              if (!shown) known.erase(place);
              came.erase(place);
              continue;
            }
            const bool fresh = came.try_emplace(place, now).second;
            auto readiness = mesh.proxies.readiness_of(Mesh::key(one), mesh.own_ports(one));
            if (readiness == model::Readiness::kReady && !mesh.services[one].contains(service))
              readiness = model::Readiness::kNotReady;
            if (known.contains(place)) {
              CHECK(shown);
            } else if (shown) {
              CHECK((first || readiness == model::Readiness::kReady ||
                     (fresh ? readiness == model::Readiness::kUnknown
                            : now - came.at(place) >= ReadinessGate::kBound)));
            } else {
              CHECK(readiness != model::Readiness::kReady);
              CHECK(now - came.at(place) < ReadinessGate::kBound);
              if (fresh) CHECK(readiness == model::Readiness::kNotReady);
            }
            if (shown) known.insert(place);
          }
        }
        first = false;
      }
    }
  }
}
