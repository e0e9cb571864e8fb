// The newest mesh without some objects follows the mesh of all proxies.
#include "nack_provenance/mesh_variant.hpp"

#include <doctest/doctest.h>

#include "catalog/mesh_builder.hpp"
#include "catalog/mesh_values.hpp"
#include "catalog/readiness_fixture.hpp"
#include "catalog/readiness_gate.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::nack_provenance;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

struct Followed {
  Followed() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("stock", "10.1.0.2"));
    spec.put(routes("web", {"buy"}));
    spec.put(routes("more", {"sell"}));
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    spec.put(target("seller", "store", {"seller"}, {http_rule("more", {"sell"})}));
    spec.put(split("canary", "store", {{"stock", 1}}));
    provider.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store")});
    next();
  }
  // The next mesh of all proxies.
  Snapshot next() {
    auto fresh = builder.build();
    REQUIRE(fresh);
    variant.follow(fresh);
    return all = fresh;
  }
  std::vector<std::string> paths(const ObjectSet& objects) {
    std::vector<std::string> out;
    for (const auto& entry : variant.without(objects)->targets)
      for (const auto& route : entry->policy.http_routes)
        out.push_back(entry->policy.target.name + route.path_regex);
    return out;
  }

  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider{"memory"};
  catalog::MeshBuilder builder{spec, {{&provider}}, {&provider}, TrustDomain("cluster.local")};
  const MeshInputs inputs{
      {{&provider}}, {&provider}, [] { return TrustDomains(TrustDomain("cluster.local")); }};
  MeshVariant variant{inputs};
  Snapshot all;
};

using Paths = std::vector<std::string>;
const ObjectKey kWeb{kinds::kHttpRouteGroup, kNs, "web"};

}  // namespace

TEST_SUITE("nack_provenance::MeshVariant") {
  TEST_CASE("a mesh has variants also while its specification is incomplete again") {
    Followed mesh;
    mesh.spec.set_synced(false);
    mesh.spec.put(service("third", "10.1.0.3"));
    mesh.next();
    CHECK(mesh.variant.without({kWeb}) != nullptr);
  }

  TEST_CASE("without nothing it is the mesh of all, without an object it lacks that alone") {
    Followed f;
    CHECK(f.paths({}) == Paths{"buyer/buy", "seller/sell"});
    CHECK(f.variant.without({})->hash == f.all->hash);
    CHECK(f.paths({kWeb}) == Paths{"seller/sell"});
    CHECK(f.paths({{kinds::kTrafficTarget, kNs, "seller"}}) == Paths{"buyer/buy"});
    const auto without = f.variant.without({{kinds::kTrafficSplit, kNs, "canary"}});
    CHECK_FALSE(without->services.find(service_name("store"))->split);
    CHECK(f.all->services.find(service_name("store"))->split);
    CHECK(f.variant.without({})->hash == f.all->hash);
  }

  TEST_CASE("it follows objects, endpoints, workloads and namespaces, and tells what changed") {
    Followed f;
    f.variant.without({kWeb});
    f.spec.put(routes("more", {"sell", "rent"}));
    f.spec.put(target("seller", "store", {"seller"}, {http_rule("more", {"rent"})}));
    f.next();
    CHECK(f.paths({kWeb}) == Paths{"seller/rent"});

    f.provider.set_endpoints(service_name("store"), {served_at("10.0.0.9", "store")});
    f.builder.endpoints_changed({service_name("store")});
    f.next();
    auto mesh = f.variant.without({kWeb});
    CHECK(mesh->changes.endpoints == std::set<ServiceName>{service_name("store")});
    CHECK(mesh->endpoints.find(service_name("store"))->endpoints.size() == 1);
    CHECK(f.variant.without({kWeb})->changes.empty());

    f.provider.put_workload(
        workload("buyer", "00000000-0000-4000-8000-000000000001", "buyer", "10.1.1.1", {}));
    f.builder.workloads_changed({{kNs, "buyer"}});
    f.next();
    CHECK(f.variant.without({kWeb})->workloads.size() == 1);
    f.provider.remove_workload({kNs, "buyer"});
    f.builder.workloads_changed({{kNs, "buyer"}});
    f.next();
    CHECK(f.variant.without({kWeb})->workloads.empty());

    f.spec.put_namespace("more");
    Service there = service("there", "10.1.0.77");
    there.name.ns = "more";
    f.spec.put(there);
    f.next();
    CHECK(f.variant.without({})->hash == f.all->hash);
  }

  TEST_CASE("a mesh that was not told is caught up with") {
    Followed f;
    f.variant.without({});
    f.provider.set_endpoints(service_name("store"), {});
    f.builder.endpoints_changed({service_name("store")});
    REQUIRE(f.builder.build());  // not told
    f.spec.put(target("buyer", "store", {"seller"}, {http_rule("web", {"buy"})}));
    f.next();
    CHECK(f.variant.without({})->hash == f.all->hash);
  }

  TEST_CASE("without a MeshConfig its defaults are in effect") {
    Followed f;
    MeshConfig config = f.spec.get_mesh_config();
    config.proxy.permissive = true;
    config.proxy.cluster_domain = "mesh.test";
    f.spec.set_mesh_config(config);
    f.next();
    CHECK(f.variant.without({})->config.proxy.permissive);
    const auto plain = f.variant.without({model::mesh_config_key()});
    CHECK_FALSE(plain->config.proxy.permissive);
    CHECK(plain->config.proxy.cluster_domain == "mesh.test");
  }

  TEST_CASE("without a Service that checks paths the others of its namespace check them") {
    Followed f;
    f.spec.put_namespace("more");
    const auto put = [&](const std::string& ns, const std::string& name, HttpPaths paths) {
      Service made = service(name, "");
      made.name.ns = ns;
      made.http_paths = paths;
      f.spec.put(made);
    };
    put(kNs, "strict", HttpPaths::kStrict);
    put(kNs, "normal", HttpPaths::kNormalize);
    put(kNs, "lax", HttpPaths::kUnchecked);
    put(kNs, "lax-too", HttpPaths::kUnchecked);
    put("more", "lax", HttpPaths::kUnchecked);
    f.next();
    const auto paths = [&](const std::string& absent, const ServiceName& of) {
      return f.variant.without({{kinds::kService, kNs, absent}})->services.find(of)->http_paths;
    };
    CHECK(paths("strict", service_name("lax")) == HttpPaths::kStrict);
    CHECK(paths("normal", service_name("lax")) == HttpPaths::kStrict);
    CHECK(paths("lax-too", service_name("lax")) == HttpPaths::kUnchecked);
    CHECK(paths("strict", service_name("normal")) == HttpPaths::kNormalize);
    CHECK(paths("strict", {"more", "lax"}) == HttpPaths::kUnchecked);
    CHECK(f.variant.without({})->hash == f.all->hash);
  }

  TEST_CASE("an endpoint is announced with the mesh of all, and not before") {
    const auto announced = [](Followed& f) {
      return f.variant.without({kWeb})->endpoints.find(service_name("store"))->endpoints.size();
    };
    Followed f;
    CHECK(announced(f) == 1);
    catalog::values::FakeReadiness proxies;
    osm::testing::ManualClock clock;
    catalog::ReadinessGate gate(proxies, clock);
    f.builder.filter_announcements(gate);
    f.provider.put_workload(workload("store", "u1", "store", "10.0.0.2", {"store"}));
    proxies.connect({kNs, ProxyId("u1")});
    f.provider.set_endpoints(service_name("store"),
                             {served_at("10.0.0.1", "store"), served_at("10.0.0.2", "store")});
    CHECK(announced(f) == 1);  // the provider is ahead
    f.builder.endpoints_changed({service_name("store")});
    f.builder.workloads_changed({{kNs, "store"}});
    f.next();
    CHECK(announced(f) == 1);
    clock.advance(5s);
    f.next();
    CHECK(announced(f) == 2);
    CHECK(f.variant.without({kWeb})->changes.endpoints.empty());
  }

  TEST_CASE("a permission is told with the mesh of all, and not before") {
    Followed f;
    const auto servers = [&] {
      const auto mesh = f.variant.without({kWeb});
      const auto list = mesh->upstreams_of(identity("seller"));
      const auto* upstream = model::find_upstream(*list, service_name("store"));
      return upstream->every_identity
                 ? mesh->services.find(service_name("store"))->identities.size()
                 : upstream->allowed.size();
    };
    catalog::values::FakeReadiness proxies;
    osm::testing::ManualClock clock;
    catalog::ReadinessGate gate(proxies, clock);
    f.builder.filter_announcements(gate);
    f.provider.put_workload(workload("two", "u2", "two", "10.0.0.2", {"store"}));
    f.provider.set_endpoints(service_name("store"),
                             {served_at("10.0.0.1", "store"), served_at("10.0.0.2", "two")});
    f.builder.endpoints_changed({service_name("store")});
    f.builder.workloads_changed({{kNs, "two"}});
    f.next();
    gate.end(f.builder.generation(), true);
    REQUIRE(servers() == 1);
    proxies.connect({kNs, ProxyId("u2")});
    f.spec.put(target("second", "two", {"seller"}, {http_rule("more", {"sell"})}));
    f.next();
    gate.end(f.builder.generation(), true);
    REQUIRE(gate.waiting().permissions == 1);
    CHECK(servers() == 1);
    clock.advance(5s);
    f.next();
    CHECK(servers() == 2);
  }
}
