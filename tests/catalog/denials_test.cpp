// Denied accounts are no sources, endpoints or identities, and denied proxies are marked.
#include <doctest/doctest.h>

#include "catalog/mesh_builder.hpp"
#include "explain/policy_check.hpp"
#include "mesh_values.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

const ObjectKey kStolen{kinds::kDenylist, "osm-system", "stolen"};

// A store with two backends of different accounts, whose buyer and auditor may buy.
struct Shop {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  MeshBuilder builder = fresh_builder();
  std::vector<Subscription> subscriptions;
  std::shared_ptr<const model::MeshSnapshot> last;

  Shop() {
    subscriptions.push_back(
        vm.subscribe([this](const auto& names) { builder.endpoints_changed(names); }));
    subscriptions.push_back(
        vm.subscribe_workloads([this](const auto& names) { builder.workloads_changed(names); }));
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("stock", "10.1.0.2"));
    spec.put(routes("web", {"buy"}));
    spec.put(target("buyers", "store", {"auditor", "buyer"}, {http_rule("web", {"buy"})}));
    spec.put(target("canary", "canary", {"buyer"}, {http_rule("web", {"buy"})}));
    spec.put(target("stock", "stock", {"store"}, {http_rule("web", {"buy"})}));
    vm.set_endpoints(service_name("store"),
                     {served_at("10.0.0.1", "store"), served_at("10.0.0.3", "canary")});
    vm.set_endpoints(service_name("stock"), {served_at("10.0.0.2", "stock")});
    vm.put_workload(workload("store", "u1", "store", "10.0.0.1", {"store"}));
    vm.put_workload(workload("buyer", "u2", "buyer", "10.0.0.9", {}));
    last = builder.build();
    REQUIRE(last);
  }
  MeshBuilder fresh_builder() {
    return MeshBuilder(spec, {{&vm}}, {&vm}, TrustDomain("cluster.local"));
  }
  const model::MeshSnapshot& next() {
    last = builder.build();
    REQUIRE(last);
    return *last;
  }
  const model::MeshSnapshot& deny(const std::vector<std::string>& accounts,
                                  const std::vector<std::string>& proxies = {}) {
    Denylist list{.reason = "a lost laptop", .accounts = {}, .proxies = {}};
    for (const std::string& account : accounts) list.accounts.push_back(identity(account));
    for (const std::string& proxy : proxies) list.proxies.emplace_back(proxy);
    spec.put(Policy(kStolen, std::move(list)));
    return next();
  }
  const model::MeshSnapshot& forgive() {
    spec.remove(kStolen);
    return next();
  }
  std::vector<ServiceIdentity> sources_at(const std::string& account) const {
    std::vector<ServiceIdentity> out;
    for (const auto& policy : last->policies.find(identity(account))->inbound)
      out.insert(out.end(), policy.sources.begin(), policy.sources.end());
    return out;
  }
  model::WorkloadEntry workload_of(const std::string& uuid) const {
    const auto entry = last->workloads.find({kNs, ProxyId(uuid)});
    REQUIRE(entry);
    return *entry;
  }
};

}  // namespace

TEST_SUITE("catalog: denied identities") {
  TEST_CASE("a denied client is a source of no policy, and only its servers are concerned") {
    Shop shop;
    const auto& mesh = shop.deny({"buyer"});
    CHECK(shop.sources_at("store") == std::vector<ServiceIdentity>{identity("auditor")});
    CHECK(shop.sources_at("canary").empty());
    const std::vector<ServiceIdentity> buyer{identity("buyer")};
    CHECK(mesh.policies.find(identity("store"))->denied == buyer);
    CHECK(mesh.policies.find(identity("canary"))->denied == buyer);
    CHECK(mesh.changes.identities ==
          std::set<ServiceIdentity>{identity("canary"), identity("store")});
    CHECK_FALSE(mesh.changes.everything);
    CHECK(mesh.changes.services.empty());
    CHECK(mesh.changes.endpoints.empty());
    CHECK(shop.workload_of("u2").denied == "Denylist osm-system/stolen denies it (a lost laptop)");
    CHECK(shop.workload_of("u2").denial_origin ==
          model::Origin{{kinds::kDenylist, "osm-system", "stolen"}, "spec"});
    CHECK(shop.workload_of("u1").denied.empty());
    CHECK(mesh.changes.workloads.size() == 1);

    shop.forgive();
    CHECK(shop.sources_at("store") ==
          std::vector<ServiceIdentity>{identity("auditor"), identity("buyer")});
    CHECK(shop.last->policies.find(identity("store"))->denied.empty());
    CHECK(shop.workload_of("u2").denied.empty());
  }

  TEST_CASE("clients get neither the endpoints nor the identity of a denied server") {
    Shop shop;
    const auto before = shop.last;
    const auto& mesh = shop.deny({"canary"});
    const auto store = mesh.services.find(service_name("store"));
    CHECK(store->identities == std::vector<ServiceIdentity>{identity("store")});
    const auto endpoints = mesh.endpoints.find(service_name("store"));
    REQUIRE(endpoints->endpoints.size() == 1);
    CHECK(endpoints->endpoints[0].address == "10.0.0.1");
    const auto upstreams = mesh.policies.find(identity("buyer"))->upstreams;
    REQUIRE(upstreams->size() == 1);
    CHECK(upstreams->front().every_identity);
    CHECK(mesh.endpoints.find(service_name("stock")) ==
          before->endpoints.find(service_name("stock")));

    // Endpoints that come later are left out, too.
    shop.vm.set_endpoints(service_name("store"),
                          {served_at("10.0.0.1", "store"), served_at("10.0.0.4", "canary"),
                           served_at("10.0.0.5", "store")});
    const auto later = shop.next().endpoints.find(service_name("store"));
    CHECK(later->endpoints.size() == 2);

    CHECK(shop.forgive().endpoints.find(service_name("store"))->endpoints.size() == 3);
  }

  TEST_CASE("in permissive mode every server is concerned, once") {
    Shop shop;
    MeshConfig config;
    config.proxy.permissive = true;
    shop.spec.set_mesh_config(config);
    shop.next();
    CHECK(shop.deny({"buyer"}).changes.everything);
    CHECK(shop.last->denied->accounts.contains(identity("buyer")));
    CHECK_FALSE(shop.deny({"buyer"}, {"u1"}).changes.everything);
  }

  TEST_CASE("a denied proxy is refused, and its account stays") {
    Shop shop;
    const auto& mesh = shop.deny({}, {"u1", "u7"});
    CHECK_FALSE(shop.workload_of("u1").denied.empty());
    CHECK(mesh.changes.workloads.size() == 1);
    CHECK(mesh.changes.identities.empty());
    CHECK(mesh.endpoints.find(service_name("store"))->endpoints.size() == 2);
    // A workload that comes later with a denied UUID is refused, too.
    shop.vm.put_workload(workload("late", "u7", "late", "10.0.0.7", {}));
    shop.next();
    CHECK_FALSE(shop.workload_of("u7").denied.empty());
  }

  TEST_CASE("`osm policy check` names the Denylist, in both modes") {
    Shop shop;
    shop.deny({"buyer"});
    const auto check = [&] {
      for (const auto& [source, destination] :
           {std::pair("buyer", "store"), std::pair("auditor", "buyer")}) {
        const PolicyDecision decision =
            explain::check_policy(*shop.last, identity(source), identity(destination), {});
        CHECK_FALSE(decision.allowed);
        CHECK(decision.reason.find("shop/buyer: Denylist osm-system/stolen denies it") !=
              std::string::npos);
      }
      CHECK(explain::check_policy(*shop.last, identity("auditor"), identity("store"), {}).allowed);
    };
    check();
    MeshConfig config;
    config.proxy.permissive = true;
    shop.spec.set_mesh_config(config);
    shop.next();
    check();
  }

  TEST_CASE("the mesh is the same whether a denial comes first or last") {
    Shop shop;
    shop.deny({"buyer", "canary"}, {"u1"});
    MeshBuilder fresh = shop.fresh_builder();
    const auto other = fresh.build();
    const auto same = [](const auto& a, const auto& b) {
      REQUIRE(a.size() == b.size());
      for (auto left = a.begin(), right = b.begin(); left != a.end(); ++left, ++right)
        CHECK(**left == **right);
    };
    same(shop.last->services, other->services);
    same(shop.last->endpoints, other->endpoints);
    same(shop.last->policies, other->policies);
    same(shop.last->workloads, other->workloads);
    CHECK(*shop.last->denied == *other->denied);
  }
}
