// TrafficTargets become routes and visible services, and dangling rules grant nothing.
#include "catalog/resolve_policies.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "mesh_values.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using model::Upstream;

namespace {

const ObjectKey kTarget{kinds::kTrafficTarget, kNs, "t"};

SpecSnapshot route_objects() {
  SpecSnapshot out;
  out.http_routes = shared(std::vector{routes("web", {"books", "buy", "admin"})});
  const auto tcp = [&](const char* name, std::vector<Port> ports) {
    out.tcp_routes = out.tcp_routes.with(std::make_shared<const smi::TcpRoute>(
        smi::TcpRoute{.name = {kNs, name}, .ports = std::move(ports)}));
  };
  tcp("mysql", {port(3306)});
  tcp("both", {port(3307), port(3306)});
  tcp("any", {});
  return out;
}

using Split = std::vector<WeightedCluster>;

struct Mesh {
  Table<model::ServiceEntry> services;
  Table<model::TargetEntry> targets;

  void add_service(const std::string& name, const std::vector<std::string>& accounts,
                   std::optional<Split> split = {}) {
    model::ServiceEntry entry;
    entry.name = service_name(name);
    for (const std::string& account : accounts) entry.identities.push_back(identity(account));
    entry.split = std::move(split);
    services = services.with(std::make_shared<const model::ServiceEntry>(std::move(entry)));
  }
  void add_idle(const ServiceName& name, std::optional<Split> split = {}) {
    model::ServiceEntry entry;
    entry.name = name;
    entry.idle = true;
    entry.split = std::move(split);
    services = services.with(std::make_shared<const model::ServiceEntry>(std::move(entry)));
  }
  void add_target(const smi::TrafficTarget& target) {
    targets = targets.with(
        std::make_shared<const model::TargetEntry>(resolve_target(target, route_objects())));
  }
  void allow(const std::string& source, const std::string& destination) {
    add_target(
        target(source + "-" + destination, destination, {source}, {http_rule("web", {"buy"})}));
  }
  model::IdentityPolicy policy(const std::string& account) const {
    return resolve_policy(identity(account), PolicyIndex(targets, services), services);
  }
};

Upstream whole(const std::string& name, bool dialled = true) {
  return {.service = service_name(name), .dialled = dialled, .every_identity = true, .allowed = {}};
}
Upstream part(const std::string& name, std::vector<ServiceIdentity> allowed, bool dialled = true) {
  return {.service = service_name(name),
          .dialled = dialled,
          .every_identity = false,
          .allowed = std::move(allowed)};
}
using Upstreams = std::vector<Upstream>;

}  // namespace

TEST_SUITE("catalog::resolve_target") {
  TEST_CASE("grants of each kind of rule") {
    struct Case {
      const char* name;
      std::vector<smi::TrafficTargetRule> rules;
      std::vector<std::string> http;
      bool tcp;
      std::vector<Port> ports;
    };
    const Case cases[] = {
        {"listed matches only, as listed",
         {http_rule("web", {"buy", "books"})},
         {"buy", "books"},
         false,
         {}},
        {"a rule without matches grants no HTTP route", {http_rule("web", {})}, {}, false, {}},
        {"an unknown match grants nothing by itself",
         {http_rule("web", {"gone", "buy"})},
         {"buy"},
         false,
         {}},
        {"a missing group grants nothing", {http_rule("gone", {"buy"})}, {}, false, {}},
        {"one match through two rules is one route",
         {http_rule("web", {"buy"}), http_rule("web", {"books", "buy"})},
         {"buy", "books"},
         false,
         {}},
        {"a TCPRoute opens its ports", {tcp_rule("mysql")}, {}, true, {port(3306)}},
        {"ports of several TCPRoutes are united",
         {tcp_rule("mysql"), tcp_rule("both")},
         {},
         true,
         {port(3306), port(3307)}},
        {"a TCPRoute without ports opens any, united with any other",
         {tcp_rule("mysql"), tcp_rule("any")},
         {},
         true,
         {}},
        {"a missing TCPRoute opens none", {tcp_rule("gone")}, {}, false, {}},
        {"a missing TCPRoute withholds everything: its ports would bound the rest",
         {http_rule("web", {"buy"}), tcp_rule("mysql"), tcp_rule("gone")},
         {},
         false,
         {}},
    };
    for (const Case& one : cases) {
      CAPTURE(one.name);
      const auto entry =
          resolve_target(target("t", "d", {"b", "a", "b"}, one.rules), route_objects());
      std::vector<std::string> http;
      for (const RoutePolicy& route : entry.policy.http_routes) http.push_back(route.name);
      CHECK(http == one.http);
      CHECK(entry.policy.tcp == one.tcp);
      CHECK(entry.policy.tcp_ports == one.ports);
      CHECK(entry.grants() == (one.tcp || !one.http.empty()));
      CHECK(entry.policy.sources == std::vector{identity("a"), identity("b")});
      CHECK(entry.route_origins.size() == http.size());
      CHECK(entry.origin == model::Origin{kTarget, "", entry.grants()});
    }
  }

  TEST_CASE("a route has the origin of the first rule that names it") {
    const auto entry =
        resolve_target(target("t", "d", {"a"},
                              {http_rule("gone", {"buy"}), http_rule("web", {"buy"}),
                               tcp_rule("mysql"), http_rule("web", {"books", "buy"})}),
                       route_objects());
    CHECK(entry.route_origins ==
          std::vector<model::Origin>{{kTarget, "spec.rules[1]"}, {kTarget, "spec.rules[3]"}});
  }
}

TEST_SUITE("catalog::resolve_policy") {
  TEST_CASE("a client sees the services of the accounts it may call, and no others") {
    Mesh mesh;
    mesh.add_service("store", {"store"});
    mesh.add_service("vault", {"vault"});
    mesh.allow("buyer", "store");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{whole("store")});
    CHECK(mesh.policy("store").upstreams->empty());
    CHECK(mesh.policy("thief").upstreams->empty());
  }

  TEST_CASE("only the permitted accounts of a service are among its identities") {
    Mesh mesh;
    mesh.add_service("store", {"v1", "v2"});
    mesh.allow("buyer", "v1");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{part("store", {identity("v1")})});
    mesh.allow("buyer", "v2");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{whole("store")});
  }

  TEST_CASE("a visible apex brings its backends, not dialled unless allowed themselves") {
    Mesh mesh;
    mesh.add_service("apex", {"v1"}, Split{{service_name("v1"), 1}, {service_name("v2"), 1}});
    mesh.add_service("v1", {"v1"});
    mesh.add_service("v2", {"v2"});
    mesh.allow("buyer", "v1");
    CHECK(*mesh.policy("buyer").upstreams ==
          Upstreams{whole("apex"), whole("v1"), part("v2", {}, false)});
    mesh.allow("buyer", "v2");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{whole("apex"), whole("v1"), whole("v2")});
  }

  TEST_CASE("an apex of accounts the client may not call stays out of sight") {
    Mesh mesh;
    mesh.add_service("apex", {"root"}, Split{{service_name("v1"), 1}});
    mesh.add_service("v1", {"v1"});
    mesh.allow("buyer", "v1");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{whole("v1")});
  }

  TEST_CASE("an idle service is seen by the clients that may call an account of its namespace") {
    Mesh mesh;
    mesh.add_service("store", {"store"});
    mesh.add_service("unserved", {});  // not idle
    mesh.add_idle(service_name("asleep"));
    mesh.add_idle({"elsewhere", "asleep"});
    mesh.allow("buyer", "store");
    CHECK(*mesh.policy("buyer").upstreams == Upstreams{whole("asleep"), whole("store")});
    CHECK(mesh.policy("store").upstreams->empty());
    CHECK(mesh.policy("thief").upstreams->empty());
    mesh.add_target(target("nothing", "store", {"thief"}, {http_rule("gone", {"buy"})}));
    CHECK(mesh.policy("thief").upstreams->empty());
  }

  TEST_CASE("an idle apex brings its backends, too") {
    Mesh mesh;
    mesh.add_service("v1", {"v1"});
    mesh.add_service("v2", {"v2"});
    mesh.add_idle(service_name("apex"), Split{{service_name("v2"), 1}});
    mesh.allow("buyer", "v1");
    CHECK(*mesh.policy("buyer").upstreams ==
          Upstreams{whole("apex"), whole("v1"), part("v2", {}, false)});
  }

  TEST_CASE("every target of a destination is kept, ordered by name") {
    Mesh mesh;
    mesh.add_target(target("b", "store", {"x"}, {http_rule("web", {"buy"})}));
    mesh.add_target(target("a", "store", {"y"}, {tcp_rule("mysql")}));
    const auto inbound = mesh.policy("store").inbound;
    REQUIRE(inbound.size() == 2);
    CHECK(inbound[0].target.name == "a");
    CHECK(inbound[0].tcp_ports == std::vector{port(3306)});
    CHECK(inbound[1].target.name == "b");
    CHECK_FALSE(inbound[1].tcp);
  }

  TEST_CASE("a target whose rules all vanished grants nothing on either side") {
    Mesh mesh;
    mesh.add_service("store", {"store"});
    mesh.add_target(target("t", "store", {"buyer"}, {http_rule("gone", {"buy"})}));
    CHECK(mesh.policy("store").inbound.empty());
    CHECK(mesh.policy("buyer").upstreams->empty());
  }

  TEST_CASE("in permissive mode everybody sees every service whole") {
    Mesh mesh;
    mesh.add_service("b", {"x", "y"});
    mesh.add_service("a", {});
    CHECK(resolve_permissive(mesh.services, false) == Upstreams{whole("a"), whole("b")});
    CHECK(resolve_permissive(mesh.services, true) == Upstreams{whole("a"), whole("b")});
  }

  TEST_CASE("in permissive mode egress carries what only workloads outside of the mesh serve") {
    Mesh mesh;
    mesh.add_service("a", {"x"});
    for (const bool split : {false, true}) {
      model::ServiceEntry entry;
      entry.name = service_name(split ? "c" : "b");
      entry.outside = true;
      if (split) entry.split = {{service_name("a"), 1}};
      mesh.services =
          mesh.services.with(std::make_shared<const model::ServiceEntry>(std::move(entry)));
    }
    CHECK(resolve_permissive(mesh.services, false) ==
          Upstreams{whole("a"), whole("b"), whole("c")});
    CHECK(resolve_permissive(mesh.services, true) == Upstreams{whole("a"), whole("c")});
  }
}
