// Queries of the catalog answer from the snapshot, and a policy check names the deciding objects.
#include "catalog/mesh_catalog.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "catalog/mesh_builder.hpp"
#include "catalog/proxy_registry.hpp"
#include "mesh_values.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/denylist.hpp"
#include "osm/values/egress.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

struct Shop {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  osm::testing::ManualClock clock;
  SnapshotCell<model::MeshSnapshot> snapshots;
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  Subscription endpoint_changes = vm.subscribe(
      [this](const std::vector<ServiceName>& services) { builder.endpoints_changed(services); });
  std::unique_ptr<MeshCataloger> catalog = make_mesh_catalog({spec, snapshots, clock});

  Shop() {
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1", {named_port("http", 80, "web")}));
    spec.put(routes("web", {"buy", "sell"}));
    spec.put(smi::TcpRoute{.name = {kNs, "sql"}, .ports = {port(3306)}});
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"}), tcp_rule("sql")}));
    spec.put(target("ghost", "store", {"ghost"}, {http_rule("gone", {"buy"})}));
    spec.put_service_account(account("idle"));
    vm.set_endpoints(service_name("store"), {served_at("10.0.0.1", "store", 8081)});
    Workload store = workload("vm1", "u-store", "store", "10.0.0.1", {"store"});
    store.ports = {{"web", port(8081)}};
    vm.put_workload(store);
    vm.put_workload(workload("vm2", "u-buyer", "buyer", "10.0.0.2"));
    publish();
  }
  // Publishes the changes since the last call, as the mesh loop does.
  void publish() {
    builder.all_workloads_changed();
    if (const auto snapshot = builder.build()) snapshots.publish(snapshot);
  }
  // Another workload of the Service, and the permission to call both by HTTP alone.
  void add_second_store() {
    vm.set_endpoints(service_name("store"),
                     {served_at("10.0.0.1", "store", 8081), served_at("10.0.0.3", "store", 8081)});
    Workload second = workload("vm3", "u-second", "store", "10.0.0.3", {"store"});
    second.ports = {{"web", port(8081)}};
    vm.put_workload(second);
    spec.put(target("buyer", "store", {"buyer"}, {http_rule("web", {"buy"})}));
    publish();
  }
  void remove_workload(const char* name) {
    vm.remove_workload({kNs, name});
    publish();
  }
  PolicyDecision check(const char* source, const char* destination) {
    auto decision = catalog->check_policy(identity(source), identity(destination));
    REQUIRE(decision.ok());
    return *decision;
  }
};

bool mentions(const std::string& text, std::vector<std::string> parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) return false;
  return true;
}

Proxy proxy(const std::string& uuid, const std::string& account, WallTime connected_at) {
  Proxy out;
  out.id = ProxyId(uuid);
  out.common_name = CommonName(uuid + ".vm." + kNs);
  out.identity = identity(account);
  out.connected_at = connected_at;
  out.certificate_not_after = connected_at + 24h;
  return out;
}

certificate::ProxyCertificate issued(const std::string& uuid, WallTime not_after) {
  return {.common_name = CommonName(uuid + ".vm." + kNs),
          .proxy_id = ProxyId(uuid),
          .ns = kNs,
          .not_after = not_after,
          .claimed = false};
}

// The only way of an allowed call.
ExplainedWay way_to_the_store(const MeshCataloger& catalog) {
  auto answer =
      catalog.explain({.source = "shop/buyer", .destination = "shop/store", .path = "/buy"});
  REQUIRE(answer.ok());
  REQUIRE(answer->ways.size() == 1);
  return answer->ways.front();
}

using Names = std::vector<ServiceIdentity>;
using Addresses = std::vector<std::string>;

}  // namespace

TEST_SUITE("catalog::MeshCataloger") {
  TEST_CASE("an explanation names the workloads whose proxies are not connected") {
    Shop shop;
    shop.add_second_store();
    const auto told = [&] { return way_to_the_store(*shop.catalog); };
    CHECK(told().answer.allowed);
    CHECK(told().not_connected == Addresses{"10.0.0.1", "10.0.0.3"});
    shop.catalog->register_proxy(proxy("u-store", "store", shop.clock.wall_now()));
    CHECK(told().not_connected == Addresses{"10.0.0.3"});
    CHECK(told().text() ==
          "policy lets the call reach 10.0.0.1:8081, 10.0.0.3:8081; the proxies of 10.0.0.3 are "
          "not connected");
    shop.catalog->register_proxy(proxy("u-second", "store", shop.clock.wall_now()));
    CHECK(told().not_connected.empty());
    CHECK(told().text() == "policy lets the call reach 10.0.0.1:8081, 10.0.0.3:8081");
    shop.catalog->unregister_proxy(ProxyId("u-store"));
    CHECK(told().not_connected == Addresses{"10.0.0.1"});
  }

  TEST_CASE("an explanation takes a proxy for connected that another replica reports") {
    Shop shop;
    shop.add_second_store();
    ProxiesElsewhere elsewhere;
    const auto catalog =
        make_mesh_catalog({shop.spec, shop.snapshots, shop.clock, [&] { return elsewhere; }});
    const auto told = [&] { return way_to_the_store(*catalog); };
    CHECK(told().not_connected == Addresses{"10.0.0.1", "10.0.0.3"});
    CHECK(told().text() ==
          "policy lets the call reach 10.0.0.1:8081, 10.0.0.3:8081, whose proxies are not "
          "connected");
    // A certificate alone is no connection.
    elsewhere.certificates = {issued("u-store", shop.clock.wall_now() + 1h)};
    elsewhere.connected = {{kNs, ProxyId("u-second")}, {kNs, ProxyId("u-gone")}};
    CHECK(told().not_connected == Addresses{"10.0.0.1"});
    catalog->register_proxy(proxy("u-store", "store", shop.clock.wall_now()));
    CHECK(told().not_connected.empty());
    elsewhere.connected.clear();
    CHECK(told().not_connected == Addresses{"10.0.0.3"});
  }

  TEST_CASE("before the first snapshot every answer is that it is not ready") {
    osm::testing::MemoryMeshSpec spec;
    osm::testing::ManualClock clock;
    SnapshotCell<model::MeshSnapshot> snapshots;
    const auto catalog = make_mesh_catalog({spec, snapshots, clock});
    CHECK(catalog->list_smi_policies().error().code == ErrorCode::kNotReady);
    CHECK(catalog->list_policies_in_force().error().code == ErrorCode::kNotReady);
    CHECK(catalog->list_endpoints_for_service(service_name("s")).error().code ==
          ErrorCode::kNotReady);
    CHECK(catalog->check_policy(identity("a"), identity("b")).error().code == ErrorCode::kNotReady);
    CHECK(catalog->list_participants().empty());
    CHECK(&catalog->get_smi_spec() == &spec);
  }

  TEST_CASE("permitted calls follow the targets that grant something") {
    Shop shop;
    CHECK(*shop.catalog->list_inbound_service_identities(identity("store")) ==
          Names{identity("buyer")});
    CHECK(*shop.catalog->list_outbound_service_identities(identity("buyer")) ==
          Names{identity("store")});
    CHECK(shop.catalog->list_outbound_service_identities(identity("ghost"))->empty());
    CHECK(shop.catalog->list_inbound_service_identities(identity("idle"))->empty());
    CHECK(shop.catalog->list_inbound_service_identities(identity("nobody")).error().code ==
          ErrorCode::kNotFound);
  }

  TEST_CASE("a denied account has no peers and is none, in both modes") {
    Shop shop;
    const auto& catalog = *shop.catalog;
    const ObjectKey stolen{kinds::kDenylist, "osm-system", "stolen"};
    const auto deny = [&](const char* account) {
      Denylist list{.reason = {}, .accounts = {}, .proxies = {}};
      list.accounts.push_back(identity(account));
      shop.spec.put(Policy(stolen, list));
      shop.publish();
    };
    const auto agree = [&](const char* source, const char* destination, bool allowed) {
      const Names callers = *catalog.list_inbound_service_identities(identity(destination));
      const Names called = *catalog.list_outbound_service_identities(identity(source));
      CHECK(std::ranges::count(callers, identity(source)) == int{allowed});
      CHECK(std::ranges::count(called, identity(destination)) == int{allowed});
      CHECK(shop.check(source, destination).allowed == allowed);
    };
    agree("buyer", "store", true);
    for (const bool permissive : {false, true}) {
      CAPTURE(permissive);
      MeshConfig config;
      config.proxy.permissive = permissive;
      shop.spec.set_mesh_config(config);
      for (const char* denied : {"buyer", "store"}) {
        deny(denied);
        agree("buyer", "store", false);
        CHECK(catalog.list_inbound_service_identities(identity(denied))->empty());
        CHECK(catalog.list_outbound_service_identities(identity(denied))->empty());
      }
      agree("ghost", "buyer", permissive);
      shop.spec.remove(stolen);
      shop.publish();
      agree("buyer", "store", true);
    }
  }

  TEST_CASE("services, accounts and endpoints of each other") {
    Shop shop;
    CHECK(*shop.catalog->list_service_identities_for_service(service_name("store")) ==
          Names{identity("store")});
    CHECK(shop.catalog->get_services_for_service_identity(identity("store"))->size() == 1);
    CHECK(shop.catalog->get_services_for_service_identity(identity("buyer"))->empty());
    CHECK(*shop.catalog->list_endpoints_for_service(service_name("store")) ==
          std::vector<MergedEndpoint>{{served_at("10.0.0.1", "store", 8081), "vm"}});
    CHECK(shop.catalog->list_endpoints_for_service(service_name("x")).error().code ==
          ErrorCode::kNotFound);
    CHECK(shop.catalog->get_ingress_policies_for_service(service_name("store"))->empty());
    CHECK(shop.catalog->get_ingress_policies_for_service(service_name("x")).error().code ==
          ErrorCode::kNotFound);
  }

  TEST_CASE("callers from outside of the mesh are those of the IngressBackends in force") {
    Shop shop;
    IngressBackend edge;
    edge.backends = {{.service = service_name("store"), .target_port = port(8081), .tls = {}}};
    edge.networks = {"10.0.0.0/8"};
    edge.limits_addresses = true;
    const ObjectKey key{kinds::kIngressBackend, kNs, "edge"};
    shop.spec.put(Policy(key, edge));
    shop.publish();
    const IngressTrafficPolicy plain{key, port(8081), {}, {{"10.0.0.0/8"}}, {}};
    CHECK(*shop.catalog->get_ingress_policies_for_service(service_name("store")) ==
          std::vector{plain});
    edge.backends.front().tls = IngressTls{true, {"shop.example"}};
    edge.principals = {"gateway.example"};
    shop.spec.put(Policy(key, edge));
    shop.publish();
    const IngressTrafficPolicy tls{
        key, port(8081), edge.backends.front().tls, {{"10.0.0.0/8"}}, {"gateway.example"}};
    CHECK(*shop.catalog->get_ingress_policies_for_service(service_name("store")) ==
          std::vector{tls});
    shop.spec.remove(key);
    shop.publish();
    CHECK(shop.catalog->get_ingress_policies_for_service(service_name("store"))->empty());
  }

  TEST_CASE("policies without an effect are not in force") {
    Shop shop;
    const auto in_force = [&] {
      shop.publish();
      std::set<std::string> out;
      const auto policies = shop.catalog->list_policies_in_force();
      for (const auto& policy : *policies) out.insert(policy->key.str());
      return out;
    };
    CHECK(in_force().empty());
    IngressBackend edge;
    edge.backends = {{.service = service_name("store"), .target_port = port(8081), .tls = {}}};
    edge.networks = {"10.0.0.0/8"};
    edge.limits_addresses = true;
    for (const char* name : {"edge", "second"})  // the first has the port
      shop.spec.put(Policy({kinds::kIngressBackend, kNs, name}, edge));
    Egress out;
    out.sources = {identity("buyer")};
    out.ports = {{port(443), EgressProtocol::kTcp}};
    shop.spec.put(Policy({kinds::kEgress, kNs, "out"}, out));
    shop.spec.put(Policy({kinds::kDenylist, kNs, "stolen"}, Denylist()));
    CHECK(in_force() == std::set<std::string>{"Denylist shop/stolen", "Egress shop/out",
                                              "IngressBackend shop/edge"});
    MeshConfig config;
    config.proxy.egress = true;  // everybody may call everything outside
    shop.spec.set_mesh_config(config);
    CHECK(in_force() == std::set<std::string>{"Denylist shop/stolen", "IngressBackend shop/edge"});
  }

  TEST_CASE("a service that no provider knows has no endpoints, which is no error") {
    Shop shop;
    shop.spec.put(service("empty", "10.1.0.7"));
    shop.publish();
    CHECK(shop.catalog->list_endpoints_for_service(service_name("empty"))->empty());
  }

  TEST_CASE("a proxy's services have the ports of its own workload") {
    Shop shop;
    const auto ports = shop.catalog->get_services_for_proxy(kNs, ProxyId("u-store"));
    REQUIRE(ports.ok());
    REQUIRE(ports->size() == 1);
    CHECK(ports->front().target_port == port(8081));
    CHECK(shop.catalog->get_services_for_proxy("other", ProxyId("u-store")).error().code ==
          ErrorCode::kUnknownProxy);
  }

  TEST_CASE("every TrafficTarget is listed once per source, in permissive mode too") {
    Shop shop;
    const auto smi = shop.catalog->list_smi_policies();
    REQUIRE(smi->size() == 2);
    CHECK(smi->front().target.name == "buyer");
    CHECK(smi->front().destination.services == std::vector{service_name("store")});
    CHECK(smi->front().tcp_ports == std::vector{port(3306)});
    MeshConfig config;
    config.proxy.permissive = true;
    shop.spec.set_mesh_config(config);
    shop.publish();
    CHECK(*shop.catalog->list_smi_policies() == *smi);
    CHECK(shop.catalog->list_inbound_service_identities(identity("store"))->size() == 3);
  }
}

TEST_SUITE("catalog::check_policy") {
  TEST_CASE("allowed: the answer names the deciding target and its grant") {
    Shop shop;
    const auto decision = shop.check("buyer", "store");
    CHECK(decision.allowed);
    CHECK(decision.reason ==
          "allowed by TrafficTarget shop/buyer: GET /buy on port 3306; TCP port 3306");
    REQUIRE(decision.deciding.size() == 1);
    CHECK(decision.deciding.front().target.name == "buyer");
  }

  TEST_CASE("denied: the nearest targets are named") {
    Shop shop;
    const auto no_target = shop.check("idle", "store");
    CHECK_FALSE(no_target.allowed);
    CHECK(mentions(no_target.reason,
                   {"denied: no TrafficTarget names shop/idle as a source and shop/store",
                    "nearest: TrafficTarget shop/buyer allows it to shop/buyer"}));
    CHECK(mentions(shop.check("buyer", "idle").reason,
                   {"TrafficTarget shop/buyer lets it call shop/store"}));
    CHECK_FALSE(shop.check("store", "buyer").allowed);
  }

  TEST_CASE("denied: a target that grants nothing says why") {
    Shop shop;
    const auto decision = shop.check("ghost", "store");
    CHECK_FALSE(decision.allowed);
    CHECK(mentions(decision.reason, {"TrafficTarget shop/ghost", "grants nothing"}));
  }

  TEST_CASE("denied: a target that was left out as invalid is quoted") {
    Shop shop;
    shop.spec.set_problems({{.code = ErrorCode::kInvalidRegex,
                             .object = {kinds::kTrafficTarget, kNs, "idle"},
                             .path = "mesh/a.yaml",
                             .line = 7,
                             .field = "spec",
                             .cause = "broken"}});
    CHECK(mentions(shop.check("idle", "store").reason, {"left out: mesh/a.yaml:7", "broken"}));
  }

  TEST_CASE("permissive mode allows everybody and says so") {
    Shop shop;
    MeshConfig config;
    config.proxy.permissive = true;
    shop.spec.set_mesh_config(config);
    shop.publish();
    const auto decision = shop.check("idle", "store");
    CHECK(decision.allowed);
    CHECK(decision.deciding.empty());
    CHECK(mentions(decision.reason, {"permissive"}));
  }

  TEST_CASE("an account the mesh does not know is an error, not a refusal") {
    Shop shop;
    CHECK(shop.catalog->check_policy(identity("nobody"), identity("store")).error().code ==
          ErrorCode::kNotFound);
  }
}

TEST_SUITE("catalog::ProxyRegistry") {
  TEST_CASE("a certificate is unclaimed until its proxy connects, then stays claimed") {
    Shop shop;
    const WallTime now = shop.clock.wall_now();
    shop.catalog->expect_proxy(issued("u-store", now + 24h));
    REQUIRE(shop.catalog->list_proxy_certificates().size() == 1);
    CHECK_FALSE(shop.catalog->list_proxy_certificates().front().claimed);
    shop.catalog->register_proxy(proxy("u-store", "store", now));
    CHECK(shop.catalog->list_proxy_certificates().front().claimed);
    shop.catalog->unregister_proxy(ProxyId("u-store"));
    CHECK(shop.catalog->list_proxy_certificates().front().claimed);
  }

  TEST_CASE("a proxy this replica did not expect brings its certificate along") {
    Shop shop;
    shop.catalog->register_proxy(proxy("u-store", "store", shop.clock.wall_now()));
    const auto certificates = shop.catalog->list_proxy_certificates();
    REQUIRE(certificates.size() == 1);
    CHECK(certificates.front().claimed);
    CHECK(certificates.front().ns == kNs);
  }

  TEST_CASE("certificates that expired without a connection are forgotten") {
    Shop shop;
    shop.catalog->expect_proxy(issued("u-store", shop.clock.wall_now() + 1h));
    shop.clock.advance(2h);
    CHECK(shop.catalog->list_proxy_certificates().empty());
  }

  TEST_CASE("certificates of workloads that went before they were issued are not kept for ever") {
    ConnectedProxies proxies;
    const WallTime start{};
    for (int day = 0; day < 1000; ++day)
      proxies.expect(issued("u-" + std::to_string(day), start + 24h * (day + 1)),
                     start + 24h * day);
    CHECK(proxies.size() < 200);
  }

  TEST_CASE("streams end in the order of their beginning, also when the clock was put back") {
    ConnectedProxies proxies;
    const WallTime now = WallTime{} + 24h;
    Proxy older = proxy("u-store", "store", now);
    older.peer_address = "older";
    Proxy newer = proxy("u-store", "store", now - 1h);
    newer.peer_address = "newer";
    proxies.connected(older);
    proxies.connected(newer);
    CHECK_FALSE(proxies.disconnected(ProxyId("u-store")));
    REQUIRE(proxies.connected_proxies().size() == 1);
    CHECK(proxies.connected_proxies().front().peer_address == "newer");
    CHECK(proxies.disconnected(ProxyId("u-store")));
  }

  TEST_CASE("a workload that is gone takes its certificate along, whatever that says") {
    Shop shop;
    const WallTime now = shop.clock.wall_now();
    shop.catalog->expect_proxy(issued("u-store", now + 24h));
    shop.catalog->register_proxy(proxy("u-buyer", "buyer", now));
    shop.catalog->unregister_proxy(ProxyId("u-buyer"));
    CHECK(shop.catalog->list_proxy_certificates().size() == 2);
    shop.remove_workload("vm1");
    REQUIRE(shop.catalog->list_proxy_certificates().size() == 1);
    CHECK(shop.catalog->list_proxy_certificates().front().proxy_id == ProxyId("u-buyer"));
    shop.remove_workload("vm2");
    CHECK(shop.catalog->list_proxy_certificates().empty());
  }

  TEST_CASE("a stream that outlives its workload is remembered until it ends") {
    Shop shop;
    shop.catalog->register_proxy(proxy("u-store", "store", shop.clock.wall_now()));
    shop.remove_workload("vm1");
    CHECK(shop.catalog->list_proxy_certificates().size() == 1);
    shop.catalog->unregister_proxy(ProxyId("u-store"));
    CHECK(shop.catalog->list_proxy_certificates().empty());
  }

  TEST_CASE("pods come and go without leaving anything behind") {
    Shop shop;
    const auto before = shop.catalog->list_proxy_certificates().size();
    for (int n = 0; n < 50; ++n) {
      const std::string uuid = "u-pod" + std::to_string(n);
      shop.vm.put_workload(workload("pod", uuid, "store", "10.0.0.9"));
      shop.publish();
      shop.catalog->register_proxy(proxy(uuid, "store", shop.clock.wall_now()));
      shop.catalog->unregister_proxy(ProxyId(uuid));
    }
    shop.remove_workload("pod");
    CHECK(shop.catalog->list_proxy_certificates().size() == before);
  }

  TEST_CASE("the end of an older stream does not disconnect the newer one") {
    Shop shop;
    const WallTime now = shop.clock.wall_now();
    shop.catalog->register_proxy(proxy("u-store", "store", now));
    shop.catalog->register_proxy(proxy("u-store", "store", now + 1s));
    shop.catalog->unregister_proxy(ProxyId("u-store"));
    CHECK(shop.catalog->list_participants() == std::vector{ProxyId("u-store")});
    shop.catalog->unregister_proxy(ProxyId("u-store"));
    CHECK(shop.catalog->list_participants().empty());
    shop.catalog->unregister_proxy(ProxyId("u-store"));  // unknown: ignored
  }

  TEST_CASE("participants are connected and have endpoints, and never filter endpoints") {
    Shop shop;
    const WallTime now = shop.clock.wall_now();
    shop.catalog->register_proxy(proxy("u-buyer", "buyer", now));  // has no service
    shop.catalog->register_proxy(proxy("u-gone", "store", now));   // has no workload
    CHECK(shop.catalog->list_participants().empty());
    CHECK(shop.catalog->list_endpoints_for_service(service_name("store"))->size() == 1);
    shop.catalog->register_proxy(proxy("u-store", "store", now));
    CHECK(shop.catalog->list_participants() == std::vector{ProxyId("u-store")});
  }

  TEST_CASE("proxies that other replicas report are participants, and their certificates known") {
    Shop shop;
    const WallTime now = shop.clock.wall_now();
    ProxiesElsewhere elsewhere;
    const auto catalog =
        make_mesh_catalog({shop.spec, shop.snapshots, shop.clock, [&] { return elsewhere; }});
    catalog->expect_proxy({CommonName("u-buyer.buyer"), ProxyId("u-buyer"), kNs, now + 1h});
    elsewhere.connected = {{kNs, ProxyId("u-store")}, {kNs, ProxyId("u-buyer")}};
    for (const char* name : {"store", "buyer"})
      elsewhere.certificates.push_back({CommonName(std::string("u-") + name + "." + name),
                                        ProxyId(std::string("u-") + name), kNs, now + 1h, true});
    CHECK(catalog->list_participants() == std::vector{ProxyId("u-store")});
    CHECK(catalog->list_proxy_certificates() ==
          std::vector{elsewhere.certificates[1], elsewhere.certificates[0]});
    CHECK(catalog->own_proxy_certificates().size() == 1);
    CHECK_FALSE(catalog->own_proxy_certificates().front().claimed);
  }
}
