// A client that calls some servers of a Service is sent to those of another account when their
// proxies have acknowledged the permission, five seconds at most. In the same way all clients wait
// when the mesh becomes permissive.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "catalog/readiness_gate.hpp"
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

// Service "api", which the accounts "one" and "two" run; "web" may call "one".
struct Shop {
  osm::testing::ManualClock clock;
  FakeReadiness proxies;
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  ReadinessGate gate{proxies, clock};
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  model::MeshSnapshot last;

  Shop() {
    builder.filter_announcements(gate);
    spec.put_namespace(kNs);
    spec.put(service("api", "10.1.0.1"));
    spec.put(routes("all", {"get"}));
    for (const char* account : {"one", "two"}) vm.put_workload(machine(account, {"api"}));
    vm.set_endpoints(service_name("api"),
                     {served_at("10.0.0.1", "one"), served_at("10.0.0.2", "two")});
    allow("one");
    build();
    for (const char* account : {"one", "two"}) {
      proxies.connect(key(account));
      acknowledge(account);
    }
  }

  static model::ProxyKey key(const std::string& account) { return {kNs, ProxyId(account)}; }
  static Workload machine(const std::string& account, const std::vector<std::string>& services) {
    const std::string number = account == "one" ? "1" : account == "two" ? "2" : "3";
    return workload(account, account, account, "10.0.0." + number, services);
  }
  void allow(const std::string& account, const std::string& client = "web") {
    spec.put(target(client + "-" + account, account, {client}, {http_rule("all", {"get"})}));
  }
  void forbid(const std::string& account) {
    spec.remove({kinds::kTrafficTarget, kNs, "web-" + account});
  }
  void set_permissive(bool permissive) {
    MeshConfig config = spec.get_mesh_config();
    config.proxy.permissive = permissive;
    spec.set_mesh_config(config);
  }
  // The proxy acknowledges what the newest generation has for it.
  void acknowledge(const std::string& account, const std::vector<std::string>& services = {"api"}) {
    const Workload own = machine(account, services);
    proxies.acknowledge(key(account), {model::own_ports_of(last.services, own).ports,
                                       last.admits_of(identity(account))});
  }
  bool build() {
    const auto fresh = builder.build();
    if (fresh) last = *fresh;
    told = gate.end(builder.generation(), fresh != nullptr);
    return fresh != nullptr;
  }
  std::set<std::uint64_t> told;  // by the last build

  // Accounts of the Service that the client is sent to; "-" if it does not know the Service.
  std::vector<std::string> servers(const std::string& client = "web",
                                   const std::string& name = "api") const {
    const auto list = last.upstreams_of(identity(client));
    const auto* upstream = model::find_upstream(*list, service_name(name));
    if (upstream == nullptr) return {"-"};
    std::vector<std::string> out;
    for (const ServiceIdentity& account : upstream->every_identity
                                              ? last.services.find(service_name(name))->identities
                                              : upstream->allowed)
      out.push_back(account.name);
    return out;
  }
};

using Accounts = std::vector<std::string>;

}  // namespace

TEST_SUITE("catalog::ReadinessGate permissions") {
  TEST_CASE("a client is sent to servers of another account after they acknowledged it") {
    Shop shop;
    REQUIRE(shop.servers() == Accounts{"one"});
    shop.allow("two");
    REQUIRE(shop.build());
    const std::uint64_t came = shop.last.generation;
    CHECK(shop.servers() == Accounts{"one"});
    CHECK(shop.last.policies.find(identity("two"))->inbound.size() == 1);  // the server is told
    CHECK(shop.gate.waiting().permissions == 1);
    CHECK(shop.gate.waiting().generations == std::set{came});
    CHECK(shop.gate.waiting().endpoints == 0);
    CHECK_FALSE(shop.gate.is_due());
    shop.acknowledge("two");
    CHECK(shop.gate.due().clients == std::set{identity("web")});
    REQUIRE(shop.build());
    CHECK(shop.servers() == Accounts{"one", "two"});
    CHECK(shop.last.changes.identities == std::set{identity("web")});
    CHECK(shop.told == std::set{came});
    CHECK(shop.gate.waiting().permissions == 0);
    CHECK(shop.gate.permissions_told_late() == 0);
    CHECK_FALSE(shop.gate.deadline());
  }

  TEST_CASE("without an acknowledgement it is sent there after five seconds") {
    Shop shop;
    shop.allow("two");
    shop.build();
    CHECK(shop.gate.deadline() == shop.clock.steady_now() + 5s);
    shop.clock.advance(4999ms);
    CHECK_FALSE(shop.gate.is_due());
    CHECK_FALSE(shop.build());
    shop.clock.advance(1ms);
    CHECK(shop.gate.is_due());
    CHECK(shop.build());
    CHECK(shop.servers() == Accounts{"one", "two"});
    CHECK(shop.gate.permissions_told_late() == 1);
    CHECK_FALSE(shop.gate.is_due());
  }

  TEST_CASE("other changes of the client do not end the wait") {
    Shop shop;
    shop.allow("two");
    shop.build();
    shop.clock.advance(3s);
    shop.spec.put(service("other", "10.1.0.9"));
    shop.spec.put(target("own", "web", {"two"}, {http_rule("all", {"get"})}));
    shop.build();
    CHECK(shop.servers() == Accounts{"one"});
    CHECK(shop.gate.deadline() == shop.clock.steady_now() + 2s);
  }

  TEST_CASE("servers whose proxies are not connected, and a client without servers, do not wait") {
    Shop shop;
    shop.proxies.disconnect(Shop::key("two"));
    shop.allow("two");
    shop.allow("one", "new");
    shop.build();
    CHECK(shop.servers() == Accounts{"one", "two"});
    CHECK(shop.servers("new") == Accounts{"one"});
  }

  TEST_CASE("a permission that is withdrawn while it waits leaves nothing behind") {
    Shop shop;
    shop.allow("two");
    shop.build();
    shop.forbid("two");
    shop.build();
    CHECK(shop.gate.waiting().permissions == 0);
    shop.allow("two");
    shop.build();
    REQUIRE(shop.gate.waiting().permissions == 1);
    shop.forbid("two");
    shop.forbid("one");
    shop.build();
    CHECK(shop.servers() == Accounts{"-"});
    shop.clock.advance(5s);
    shop.build();
    CHECK(shop.gate.waiting().permissions == 0);
    CHECK_FALSE(shop.gate.is_due());
  }

  TEST_CASE("what a client knows is not withdrawn while servers acknowledge other callers") {
    Shop shop;
    shop.allow("two");
    shop.build();
    shop.acknowledge("two");
    shop.build();
    shop.allow("two", "more");
    shop.build();
    CHECK(shop.servers() == Accounts{"one", "two"});
  }

  TEST_CASE("a backend that comes to a split gets calls after its servers acknowledged them") {
    Shop shop;
    shop.spec.put(service("next", "10.1.0.2"));
    shop.vm.put_workload(Shop::machine("three", {"next"}));
    shop.vm.set_endpoints(service_name("next"), {served_at("10.0.0.3", "three")});
    shop.builder.all_endpoints_changed();
    shop.builder.all_workloads_changed();
    shop.build();
    shop.proxies.connect(Shop::key("three"));
    shop.acknowledge("three", {"next"});
    shop.allow("three");
    shop.spec.put(split("canary", "api", {{"api", 9}, {"next", 1}}));
    shop.build();
    CHECK(shop.servers("web", "next") == Accounts{"-"});
    CHECK(shop.servers() == Accounts{"one"});
    shop.acknowledge("three", {"next"});
    shop.build();
    CHECK(shop.servers("web", "next") == Accounts{"three"});
  }

  TEST_CASE("clients of a mesh that becomes permissive keep to its policies until servers know") {
    Shop shop;
    shop.set_permissive(true);
    shop.build();
    const std::uint64_t came = shop.last.generation;
    CHECK(shop.last.config.proxy.permissive);
    CHECK(shop.servers() == Accounts{"one"});
    CHECK(shop.servers("stranger") == Accounts{"-"});
    CHECK(shop.gate.waiting().generations == std::set{came});
    CHECK(shop.gate.deadline() == shop.clock.steady_now() + 5s);
    shop.acknowledge("one");
    CHECK_FALSE(shop.gate.is_due());
    SUBCASE("all have acknowledged the mode") {
      shop.acknowledge("two");
      CHECK(shop.gate.is_due());
    }
    SUBCASE("the time is over") { shop.clock.advance(5s); }
    SUBCASE("a target comes meanwhile") {
      shop.allow("two");
      shop.build();
      CHECK(shop.last.config.proxy.permissive);
      CHECK(shop.servers("stranger") == Accounts{"-"});
      shop.acknowledge("two");
    }
    REQUIRE(shop.build());
    CHECK(shop.servers() == Accounts{"one", "two"});
    CHECK(shop.servers("stranger") == Accounts{"one", "two"});
    CHECK(shop.last.changes.everything);
    CHECK(shop.last.policies.empty());
    CHECK(shop.told.contains(came));
    CHECK(shop.gate.waiting().permissions == 0);
    CHECK_FALSE(shop.gate.is_due());
    CHECK_FALSE(shop.build());
  }

  TEST_CASE("a mesh that ends its permissive mode at once does not wait") {
    Shop shop;
    shop.set_permissive(true);
    shop.build();
    shop.set_permissive(false);
    shop.build();
    CHECK(shop.servers() == Accounts{"one"});
    CHECK(shop.gate.waiting().permissions == 0);
    CHECK_FALSE(shop.gate.is_due());
    CHECK_FALSE(shop.last.smi_upstreams);
  }

  TEST_CASE("a mesh that begins as permissive does not wait") {
    Shop shop;
    ReadinessGate gate(shop.proxies, shop.clock);
    MeshBuilder builder(shop.spec, {{&shop.vm}}, {&shop.vm}, TrustDomain("cluster.local"));
    builder.filter_announcements(gate);
    shop.set_permissive(true);
    const auto first = builder.build();
    gate.end(builder.generation(), true);
    CHECK_FALSE(first->smi_upstreams);
    CHECK(first->upstreams_of(identity("stranger"))->size() == 1);
  }
}
