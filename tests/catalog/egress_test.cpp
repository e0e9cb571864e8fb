// An Egress concerns its sources alone, in both modes; the mesh's names and addresses are left
// out; conflicts and costs are bounded and reported.
#include <doctest/doctest.h>

#include <algorithm>

#include "built_mesh.hpp"
#include "catalog/resolve_policies.hpp"
#include "mesh_values.hpp"
#include "model/egress.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

using enum EgressProtocol;

Ipv4Network network(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d,
                    std::uint8_t length) {
  return {a << 24 | b << 16 | c << 8 | d, length};
}

// `source` may send HTTP requests to the hosts.
Egress http_to(const std::string& source, std::vector<EgressHost> hosts) {
  Egress out;
  out.sources = {identity(source)};
  out.hosts = std::move(hosts);
  out.ports = {{Port{80}, kHttp}};
  return out;
}

Egress of_port(const std::string& source, int number, EgressProtocol protocol) {
  Egress out;
  out.sources = {identity(source)};
  out.ports = {{port(number), protocol}};
  return out;
}

struct Shop : BuiltMesh {
  explicit Shop(bool permissive = false) {
    set_mode(permissive, false, true);
    spec.put_namespace(kNs);
    for (const char* name : {"buyer", "seller", "auditor", "a", "b"})
      spec.put_service_account(account(name));
    spec.put(service("store", "10.1.0.1"));
    next();
  }
  // A Service that only workloads outside of the mesh serve.
  void put_legacy() {
    Service outside = service("legacy", "10.1.0.2");
    outside.selector.clear();
    spec.put(outside);
    next();
  }
  void set_mode(bool permissive, bool egress, bool obeyed) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    config.proxy.egress = egress;
    config.proxy.egress_policy = obeyed;
    spec.set_mesh_config(config);
  }
  const model::MeshSnapshot& put(const std::string& name, const Egress& egress) {
    spec.put(Policy({kinds::kEgress, kNs, name}, egress));
    return next();
  }
  void put_setting(const std::string& name, std::uint32_t most) {
    UpstreamTrafficSetting setting;
    setting.limits.connections.max_connections = most;
    spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, name}, setting));
  }
  std::vector<model::EgressGrant> grants(const std::string& source) const {
    const auto client = last->clients.find(identity(source));
    return client ? client->egress : std::vector<model::EgressGrant>();
  }
  // The one problem of the snapshot.
  const Problem& problem() const {
    REQUIRE(last->problems->size() == 1);
    return last->problems->front();
  }
};

bool says(const Problem& problem, const std::string& text) {
  CAPTURE(problem.text());
  return problem.cause.find(text) != std::string::npos;
}

}  // namespace

TEST_SUITE("catalog.egress") {
  TEST_CASE("an Egress concerns its sources alone, in both modes, without any TrafficTarget") {
    for (const bool permissive : {false, true}) {
      CAPTURE(permissive);
      Shop shop(permissive);
      const auto& added = shop.put("out", http_to("buyer", {{"example.com", {}}}));
      CHECK(added.problems->empty());
      CHECK(added.changes.identities == std::set{identity("buyer")});
      CHECK_FALSE(added.changes.everything);
      REQUIRE(shop.grants("buyer").size() == 1);
      CHECK(shop.grants("buyer")[0].hosts == std::vector<EgressHost>{{"example.com", {}}});
      CHECK_FALSE(shop.grants("buyer")[0].routes);
      CHECK(shop.grants("seller").empty());
      const std::string hash = added.hash;
      CHECK(shop.put("out", http_to("buyer", {{"example.org", {}}})).hash != hash);
      shop.spec.remove({kinds::kEgress, kNs, "out"});
      CHECK(shop.next().changes.identities == std::set{identity("buyer")});
      CHECK(shop.last->clients.empty());
    }
  }

  TEST_CASE("global egress and the feature flag switch Egresses off, and a notice says which") {
    Shop shop;
    shop.put("out", http_to("buyer", {{"example.com", {}}}));
    auto grants = shop.grants("buyer");
    shop.set_mode(false, true, true);
    shop.next();
    for (auto& grant : grants) grant.origin.in_force = false;
    CHECK(shop.grants("buyer") == grants);  // proxies keep their clusters
    CHECK(shop.problem().code == ErrorCode::kUnusedField);
    CHECK(says(shop.problem(), "enableEgress lets everything outside of the mesh pass"));
    shop.set_mode(false, false, false);
    shop.next();
    CHECK(shop.grants("buyer").empty());
    CHECK(shop.problem().code == ErrorCode::kUnusedField);
    CHECK(says(shop.problem(), "enableEgressPolicy to true"));
    shop.set_mode(false, false, true);
    shop.next();
    CHECK(shop.grants("buyer").size() == 1);
    CHECK(shop.last->problems->empty());
  }

  TEST_CASE("with global egress an Egress has one notice, and none about its parts") {
    Shop shop;
    shop.set_mode(false, true, true);
    Egress egress = http_to("buyer", {{"store.shop", {}}, {"example.com", {}}});
    egress.route_groups = {"paths"};  // is not there
    shop.put("out", egress);
    CHECK(shop.problem().code == ErrorCode::kUnusedField);
  }

  TEST_CASE("routes are those of the groups, follow them, and none is there without its group") {
    Shop shop;
    Egress egress = http_to("buyer", {{"example.com", {}}});
    egress.route_groups = {"paths"};
    shop.put("out", egress);
    REQUIRE(shop.grants("buyer").size() == 1);
    CHECK(shop.grants("buyer")[0].routes == std::vector<RoutePolicy>());
    CHECK(shop.problem().code == ErrorCode::kDanglingReference);
    CHECK(shop.problem().field == "spec.matches");
    CHECK(says(shop.problem(), "HTTPRouteGroup shop/paths is not there"));
    shop.spec.put(routes("paths", {"books", "prices"}));
    CHECK(shop.next().changes.identities == std::set{identity("buyer")});
    CHECK(shop.last->problems->empty());
    std::vector<RoutePolicy> wanted;
    const smi::HttpRouteGroup group = routes("paths", {"books", "prices"});
    for (const smi::HttpMatch& match : group.matches)
      wanted.push_back(route_policy(group.name, match));
    CHECK(shop.grants("buyer")[0].routes == wanted);
    CHECK(wanted[1] == RoutePolicy{"prices", "/prices", {"GET"}, {}, {kNs, "paths"}});
    CHECK(model::entries_of({kinds::kHttpRouteGroup, kNs, "paths"}, *shop.last) ==
          std::set<model::EntryKey>{identity("buyer")});
  }

  TEST_CASE("without the UpstreamTrafficSetting that it names an Egress allows nothing") {
    Shop shop;
    Egress egress = http_to("buyer", {{"example.com", {}}});
    egress.setting = "slow";
    shop.put("out", egress);
    CHECK(shop.grants("buyer").empty());
    CHECK(shop.problem().code == ErrorCode::kDanglingReference);
    CHECK(says(shop.problem(), "UpstreamTrafficSetting shop/slow is not there"));
    shop.put_setting("slow", 7);
    shop.next();
    CHECK(shop.last->problems->empty());
    REQUIRE(shop.grants("buyer").size() == 1);
    CHECK(shop.grants("buyer")[0].setting == "shop/slow");
    CHECK(shop.grants("buyer")[0].connections.max_connections == 7);
    CHECK(model::entries_of({kinds::kUpstreamTrafficSetting, kNs, "slow"}, *shop.last) ==
          std::set<model::EntryKey>{identity("buyer")});
  }

  TEST_CASE("a setting whose host is no Service is told unless an Egress names it") {
    Shop shop;
    shop.put_setting("slow", 7);
    shop.next();
    CHECK(shop.problem().code == ErrorCode::kCrossNamespace);
    CHECK(shop.problem().field == "spec.host");
    Egress egress = http_to("buyer", {{"example.com", {}}});
    egress.setting = "slow";
    CHECK(shop.put("out", egress).problems->empty());
  }

  TEST_CASE("names of the mesh's Services are left out, and others stay") {
    for (const char* name : {"store", "store.shop", "store.shop.svc", "store.shop.svc.cluster",
                             "store.shop.svc.cluster.local", "pod-0.store.shop.svc.cluster.local",
                             "*.shop", "*.shop.svc.cluster.local", "*.svc.cluster.local",
                             "*.cluster.local", "*.local", "*.store.shop.svc"}) {
      CAPTURE(name);
      Shop shop;
      shop.put("out", http_to("buyer", {{name, {}}, {"example.com", {}}}));
      CHECK(shop.problem().code == ErrorCode::kConflictingAddress);
      CHECK(shop.problem().field == "spec.hosts");
      CHECK(says(shop.problem(), "belongs to Service shop/store"));
      REQUIRE(shop.grants("buyer").size() == 1);
      CHECK(shop.grants("buyer")[0].hosts == std::vector<EgressHost>{{"example.com", {}}});
    }
    for (const char* name : {"legacy", "legacy.shop.svc.cluster.local", "store.example.com",
                             "pod.store.shop", "gone.shop.svc.cluster.local", "*.elsewhere.svc"}) {
      CAPTURE(name);
      Shop shop;
      shop.put_legacy();
      const auto before = *shop.last->problems;
      shop.put("out", http_to("buyer", {{name, {}}}));
      CHECK(*shop.last->problems == before);
      CHECK(shop.grants("buyer").size() == 1);
    }
  }

  TEST_CASE("names in the domain of the cluster's DNS are the mesh's, and so is cluster.local") {
    const auto left_out = [](const char* name) {
      Shop shop;
      MeshConfig config;
      config.proxy.cluster_domain = "k8s.corp.example";
      shop.spec.set_mesh_config(config);
      shop.put("out", http_to("buyer", {{name, {}}}));
      return shop.grants("buyer").empty() || shop.grants("buyer")[0].hosts->empty();
    };
    for (const char* name :
         {"store.shop", "store.shop.svc", "store.shop.svc.k8s.corp.example",
          "pod-0.store.shop.svc.k8s.corp.example", "*.shop.svc.k8s.corp.example",
          "*.svc.k8s.corp.example", "*.k8s.corp.example", "store.shop.svc.cluster.local"}) {
      CAPTURE(name);
      CHECK(left_out(name));
    }
    // Other servers of the company.
    for (const char* name : {"*.corp.example", "store.corp.example", "k8s.corp.example",
                             "gone.shop.svc.k8s.corp.example", "store.shop.svc.corp.example"}) {
      CAPTURE(name);
      CHECK_FALSE(left_out(name));
    }
  }

  TEST_CASE("an Egress whose hosts are all left out opens no HTTP or TLS port") {
    Shop shop;
    Egress egress = http_to("buyer", {{"store.shop", {}}});
    egress.ports.push_back({Port{443}, kHttps});
    shop.put("out", egress);
    CHECK(shop.grants("buyer").empty());
    egress.ports.push_back({Port{5432}, kTcp});
    shop.put("out", egress);
    REQUIRE(shop.grants("buyer").size() == 1);
    CHECK(shop.grants("buyer")[0].ports == std::vector<EgressPort>{{Port{5432}, kTcp}});
  }

  TEST_CASE("an address of the mesh is left out, and does not become any address") {
    Shop shop;
    Egress egress = of_port("buyer", 5432, kTcp);
    egress.networks = {network(10, 1, 0, 1, 32)};
    shop.put("out", egress);
    CHECK(shop.grants("buyer").empty());
    CHECK(shop.problem().code == ErrorCode::kConflictingAddress);
    CHECK(shop.problem().field == "spec.ipAddresses");
    CHECK(says(shop.problem(), "10.1.0.1/32 belongs to Service shop/store"));
    egress.networks = {network(10, 1, 0, 0, 31), network(10, 1, 0, 1, 32),
                       network(10, 1, 0, 2, 32)};
    shop.put_legacy();
    shop.put("out", egress);
    REQUIRE(shop.grants("buyer").size() == 1);
    CHECK(shop.grants("buyer")[0].networks ==
          std::vector<Ipv4Network>{network(10, 1, 0, 0, 31), network(10, 1, 0, 2, 32)});
  }

  TEST_CASE("a headless Service takes its members' addresses from its own namespace alone") {
    Shop shop;
    shop.spec.put_namespace("other");
    const auto put_headless = [&](const std::string& ns, int number) {
      Service headless = service("members", "", {service_port("http", number, number)});
      headless.name.ns = ns;
      shop.spec.put(headless);
      Endpoint member = served_at("192.0.2.7", "members", number);
      member.identity.ns = ns;
      shop.vm.set_endpoints(headless.name, {member});
      shop.next();
      REQUIRE(shop.last->services.find(headless.name)->addresses ==
              std::vector<std::string>{"192.0.2.7"});
    };
    Egress egress = of_port("buyer", 5432, kTcp);
    egress.networks = {network(192, 0, 2, 7, 32)};
    shop.put("out", egress);
    put_headless("other", 8080);
    REQUIRE(shop.grants("buyer").size() == 1);
    CHECK(shop.grants("buyer")[0].networks == egress.networks);
    CHECK(shop.last->problems->empty());
    put_headless(kNs, 8081);
    CHECK(shop.grants("buyer").empty());
    CHECK(std::any_of(shop.last->problems->begin(), shop.last->problems->end(),
                      [](const Problem& problem) {
                        return problem.object == ObjectKey{kinds::kEgress, kNs, "out"} &&
                               says(problem, "192.0.2.7/32 belongs to Service shop/members");
                      }));
  }

  TEST_CASE("a cluster IP is left out of the Egresses of every namespace") {
    Shop shop;
    shop.spec.put_namespace("other");
    Service elsewhere = service("cache", "10.1.0.9");
    elsewhere.name.ns = "other";
    shop.spec.put(elsewhere);
    Egress egress = of_port("buyer", 5432, kTcp);
    egress.networks = {network(10, 1, 0, 9, 32)};
    shop.put("out", egress);
    CHECK(shop.grants("buyer").empty());
    CHECK(says(shop.problem(), "10.1.0.9/32 belongs to Service other/cache"));
  }

  TEST_CASE("in permissive mode every Service's address has a chain, so all are left out") {
    Shop shop(true);
    shop.put_legacy();
    Egress egress = of_port("buyer", 5432, kTcp);
    egress.networks = {network(10, 1, 0, 2, 32)};
    shop.put("out", egress);
    CHECK(shop.grants("buyer").empty());
  }

  TEST_CASE("https and tcp-server-first exclude each other on a port: the first by name counts") {
    for (const auto& [first, second] :
         {std::pair(kHttps, kTcpServerFirst), std::pair(kTcpServerFirst, kHttps)}) {
      Shop shop;
      shop.put("b", of_port("buyer", 465, second));
      Egress other = of_port("buyer", 465, first);
      other.ports.push_back({Port{25}, kTcpServerFirst});
      shop.put("a", other);
      REQUIRE(shop.grants("buyer").size() == 1);
      CHECK(shop.grants("buyer")[0].ports[0] == EgressPort{Port{465}, first});
      CHECK(shop.problem().code == ErrorCode::kConflictingProtocol);
      CHECK(shop.problem().object == ObjectKey{kinds::kEgress, kNs, "b"});
      CHECK(says(shop.problem(), "Egress shop/a opens it"));
      CHECK(shop.put("b", of_port("buyer", 466, second)).problems->empty());
      CHECK(shop.put("b", of_port("seller", 465, second)).problems->empty());
    }
  }

  TEST_CASE("of two settings of one host and port the second by name is told") {
    Shop shop;
    shop.put_setting("x", 1);
    shop.put_setting("y", 2);
    const auto limited = [](std::vector<EgressHost> hosts, const std::string& setting) {
      Egress out = http_to("buyer", std::move(hosts));
      out.setting = setting;
      return out;
    };
    shop.put("a", limited({{"example.com", {}}}, "x"));
    shop.put("b", limited({{"example.com", {}}}, "y"));
    CHECK(shop.grants("buyer").size() == 2);
    CHECK(shop.problem().code == ErrorCode::kDuplicateObject);
    CHECK(says(shop.problem(), "Egress shop/a already limits example.com:80"));
    shop.put("b", limited({{"example.com", {}}}, "x"));
    CHECK(shop.last->problems->empty() == false);  // nobody uses y
    CHECK(shop.problem().object == ObjectKey{kinds::kUpstreamTrafficSetting, kNs, "y"});
    CHECK(shop.put("b", limited({{"example.org", {}}}, "y")).problems->empty());

    Egress tcp = of_port("buyer", 99, kTcp);
    tcp.networks = {network(10, 0, 0, 0, 8)};
    tcp.setting = "x";
    CHECK(shop.put("c", tcp).problems->empty());
    tcp.networks = {network(11, 0, 0, 0, 8)};
    tcp.setting = "y";
    CHECK(shop.put("d", tcp).problems->empty());
    tcp.networks = {network(10, 1, 0, 0, 16)};
    shop.put("d", tcp);
    CHECK(says(shop.problem(), "Egress shop/c already limits addresses of port 99"));
    CHECK(says(shop.problem(), "by UpstreamTrafficSetting shop/x"));
  }

  TEST_CASE("the grants of one source are bounded together, and those of one object") {
    Shop shop;
    std::vector<EgressHost> hosts;
    for (int i = 0; i < 150; ++i) hosts.push_back({"h" + std::to_string(i) + ".example.com", {}});
    Egress wide = http_to("buyer", hosts);
    CHECK(shop.put("a", wide).problems->empty());
    Egress narrow = http_to("buyer", {{"example.org", {}}});
    narrow.networks.emplace();
    for (std::uint32_t i = 0; i < 150; ++i) narrow.networks->push_back(network(11, 0, i, 0, 24));
    shop.put("b", narrow);
    CHECK(shop.grants("buyer").size() == 1);
    CHECK(shop.problem().code == ErrorCode::kTooLarge);
    CHECK(shop.problem().object == ObjectKey{kinds::kEgress, kNs, "b"});
    narrow.ports.push_back({Port{465}, kHttps});
    shop.put("b", narrow);
    // One that is left out for its cost excludes nobody's port.
    shop.put("c", of_port("buyer", 465, kTcpServerFirst));
    REQUIRE(shop.grants("buyer").size() == 2);
    CHECK(shop.grants("buyer")[1].ports == std::vector<EgressPort>{{Port{465}, kTcpServerFirst}});
    CHECK(shop.problem().object == ObjectKey{kinds::kEgress, kNs, "b"});
    shop.spec.remove({kinds::kEgress, kNs, "c"});
    shop.spec.remove({kinds::kEgress, kNs, "b"});
    for (int i = 0; i < 600; ++i) {
      wide.sources.push_back(identity("s" + std::to_string(i)));
      shop.spec.put_service_account(account("s" + std::to_string(i)));
    }
    shop.put("a", wide);
    CHECK(shop.grants("buyer").empty());
    CHECK(shop.problem().code == ErrorCode::kTooLarge);
  }
}

TEST_SUITE("model.egress") {
  TEST_CASE("networks and names hold those within them") {
    CHECK(model::text_of(network(192, 0, 2, 0, 24)) == "192.0.2.0/24");
    CHECK(model::holds(network(0, 0, 0, 0, 0), network(255, 0, 0, 0, 8)));
    CHECK(model::holds(network(10, 0, 0, 0, 8), network(10, 9, 8, 7, 32)));
    CHECK(model::holds(network(10, 9, 8, 7, 32), network(10, 9, 8, 7, 32)));
    CHECK_FALSE(model::holds(network(10, 9, 8, 7, 32), network(10, 9, 8, 6, 32)));
    CHECK_FALSE(model::holds(network(10, 0, 0, 0, 16), network(10, 0, 0, 0, 8)));
    CHECK(model::holds("*.b.c", "a.b.c"));
    CHECK(model::holds("*.b.c", "*.a.b.c"));
    CHECK(model::holds("a.b", "a.b"));
    CHECK_FALSE(model::holds("*.b.c", "b.c"));
    CHECK_FALSE(model::holds("*.b.c", "ab.c"));
    CHECK_FALSE(model::holds("a.b.c", "*.b.c"));
  }
}
