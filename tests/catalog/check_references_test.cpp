// References to accounts that nobody has, to backends that no client may call, and to header names
// that no request can have are reported.
#include "catalog/check_references.hpp"

#include <doctest/doctest.h>

#include "built_mesh.hpp"
#include "mesh_values.hpp"
#include "osm/values/egress.hpp"
#include "osm/values/retry.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

// web may call menu and menu-next, which share a split.
struct Cafe : BuiltMesh {
  Cafe() {
    spec.put_namespace(kNs);
    for (const char* name : {"menu", "menu-v1", "menu-next"}) spec.put(service(name, ip_of(name)));
    spec.put(routes("menu", {"read"}));
    spec.put(target("reads", "menu-v1", {"till"}, {http_rule("menu", {"read"})}));
    spec.put(target("reads-next", "menu-next", {"till"}, {http_rule("menu", {"read"})}));
    vm.set_endpoints(service_name("menu"),
                     {served_at("10.0.0.1", "menu-v1"), served_at("10.0.0.2", "menu-next")});
    vm.set_endpoints(service_name("menu-v1"), {served_at("10.0.0.1", "menu-v1")});
    vm.set_endpoints(service_name("menu-next"), {served_at("10.0.0.2", "menu-next")});
    vm.put_workload(workload("till-1", "u-till", "till", "10.0.0.9"));
    spec.put(split("halves", "menu", {{"menu-v1", 1}, {"menu-next", 1}}));
    next();
  }
  static std::string ip_of(const std::string& name) {
    return "10.1.0." + std::to_string(name.size());
  }

  // "TrafficTarget shop/reads spec.sources: cause", of the code.
  std::vector<std::string> problems(ErrorCode code = ErrorCode::kDanglingReference) {
    if (const auto built = builder.build()) last = built;
    std::vector<std::string> out;
    for (const Problem& problem : *last->problems)
      if (problem.code == code)
        out.push_back(problem.object.str() + ' ' + problem.field + ": " + problem.cause);
    return out;
  }
};

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("catalog::check_references") {
  TEST_CASE("a source account that nobody has is reported until a workload or an object has it") {
    Cafe cafe;
    CHECK(cafe.problems().empty());
    cafe.spec.put(target("reads", "menu-v1", {"till", "tilll"}, {http_rule("menu", {"read"})}));
    REQUIRE(cafe.problems().size() == 1);
    CHECK(begins(cafe.problems()[0],
                 "TrafficTarget shop/reads spec.sources: nobody has the account shop/tilll"));
    SUBCASE("a workload runs as it") {
      cafe.vm.put_workload(workload("till-2", "u-till-2", "tilll", "10.0.0.8"));
      CHECK(cafe.problems().empty());
      cafe.vm.remove_workload({kNs, "till-2"});
      CHECK(cafe.problems().size() == 1);
    }
    SUBCASE("a ServiceAccount object has its name") {
      cafe.spec.put_service_account(account("tilll"));
      CHECK(cafe.problems().empty());
      cafe.spec.remove({kinds::kServiceAccount, kNs, "tilll"});
      CHECK(cafe.problems().size() == 1);
    }
    SUBCASE("an endpoint has it") {
      cafe.vm.set_endpoints(service_name("menu-v1"),
                            {served_at("10.0.0.1", "menu-v1"), served_at("10.0.0.3", "tilll")});
      CHECK(cafe.problems().empty());
      cafe.vm.set_endpoints(service_name("menu-v1"), {served_at("10.0.0.1", "menu-v1")});
      CHECK(cafe.problems().size() == 1);
    }
    SUBCASE("one of several is named, and the others are counted") {
      cafe.spec.put(
          target("reads", "menu-v1", {"till", "a", "b", "c"}, {http_rule("menu", {"read"})}));
      REQUIRE(cafe.problems().size() == 1);
      CHECK(has(cafe.problems()[0], "nobody has the account shop/a (and 2 more): "));
    }
    SUBCASE("the object is corrected") {
      cafe.spec.put(target("reads", "menu-v1", {"till"}, {http_rule("menu", {"read"})}));
      CHECK(cafe.problems().empty());
    }
    SUBCASE("the object is removed") {
      cafe.spec.remove({kinds::kTrafficTarget, kNs, "reads"});
      for (const std::string& problem : cafe.problems()) CHECK_FALSE(has(problem, "tilll"));
    }
  }

  TEST_CASE("the last workload of an account counts, not the first that leaves") {
    Cafe cafe;
    cafe.vm.put_workload(workload("till-2", "u-till-2", "till", "10.0.0.8"));
    CHECK(cafe.problems().empty());
    cafe.vm.remove_workload({kNs, "till-1"});
    CHECK(cafe.problems().empty());
    cafe.vm.remove_workload({kNs, "till-2"});
    CHECK(cafe.problems().size() == 2);  // both targets name it
  }

  TEST_CASE("sources of Egresses and Retries are references too") {
    Cafe cafe;
    Egress pay;
    pay.sources = {identity("tilll")};
    pay.ports = {{port(443), EgressProtocol::kHttps}};
    cafe.spec.put(Policy({kinds::kEgress, kNs, "pay"}, pay));
    Retry again{identity("kitchen"), {service_name("menu")}, {.retry_on = "5xx"}};
    cafe.spec.put(Policy({kinds::kRetry, kNs, "again"}, again));
    const auto found = cafe.problems();
    REQUIRE(found.size() == 2);
    CHECK(begins(found[0], "Egress shop/pay spec.sources: nobody has the account shop/tilll"));
    CHECK(begins(found[1], "Retry shop/again spec.source: nobody has the account shop/kitchen"));
    cafe.spec.put_service_account(account("tilll"));
    cafe.spec.put_service_account(account("kitchen"));
    CHECK(cafe.problems().empty());
  }

  TEST_CASE("a split backend that no client of the apex may call is reported") {
    Cafe cafe;
    cafe.spec.remove({kinds::kTrafficTarget, kNs, "reads-next"});
    const auto found = cafe.problems();
    REQUIRE(found.size() == 1);
    CHECK(begins(found[0],
                 "TrafficSplit shop/halves spec.backends[1].service: no client of Service "
                 "shop/menu may call Service shop/menu-next"));
    CHECK(has(found[0], "add a TrafficTarget from shop/till to shop/menu-next"));
    SUBCASE("its place is that in the object as written") {
      smi::TrafficSplit halves = split("halves", "menu", {{"menu-v1", 1}, {"menu-next", 1}});
      halves.backends[1].place = 2;  // the one before it was left out
      cafe.spec.put(halves);
      CHECK(begins(cafe.problems().at(0), "TrafficSplit shop/halves spec.backends[2].service: "));
    }
    SUBCASE("a target that grants nothing is none") {
      cafe.spec.put(target("reads-next", "menu-next", {"till"}, {http_rule("gone", {"read"})}));
      CHECK(cafe.problems().size() == 1);
      cafe.spec.put(routes("gone", {"read"}));
      CHECK(cafe.problems().empty());
    }
    SUBCASE("a backend without a weight is in preparation") {
      cafe.spec.put(split("halves", "menu", {{"menu-v1", 1}, {"menu-next", 0}}));
      CHECK(cafe.problems().empty());
    }
    SUBCASE("in permissive mode every client may") {
      MeshConfig config;
      config.proxy.permissive = true;
      cafe.spec.set_mesh_config(config);
      CHECK(cafe.problems().empty());
    }
    SUBCASE("nobody may call the apex") {
      cafe.spec.remove({kinds::kTrafficTarget, kNs, "reads"});
      CHECK(cafe.problems().empty());
    }
  }

  TEST_CASE("a match on a header with an underscore has no effect unless a Service takes it") {
    Cafe cafe;
    smi::HttpRouteGroup group = routes("menu", {"read", "list"});
    group.matches[1].headers = {{"x_level", "gold"}};
    cafe.spec.put(group);
    CHECK(cafe.problems(ErrorCode::kUnusedField).empty());  // no target uses it
    cafe.spec.put(target("reads", "menu-v1", {"till"}, {http_rule("menu", {"read", "list"})}));
    const auto found = cafe.problems(ErrorCode::kUnusedField);
    REQUIRE(found.size() == 1);
    CHECK(begins(found[0],
                 "HTTPRouteGroup shop/menu spec.matches: match list has no effect: it "
                 "asks for the header x_level, and sidecars of Service shop/menu"));
    Service unchecked = service("menu-v1", Cafe::ip_of("menu-v1"));
    unchecked.header_names = HeaderNames::kUnchecked;
    cafe.spec.put(unchecked);
    CHECK(cafe.problems(ErrorCode::kUnusedField).empty());
  }
}
