// The table of the admin API's routes: answers have its fields, and its rules join answers of
// several controllers.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "embedding/host.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/admin_routes.hpp"

using namespace osm;
using namespace osm::embedding_test;

namespace {

namespace json = boost::json;

net::AdminRoute route_of(const std::string& method, const std::string& path) {
  for (const net::AdminRoute& route : net::admin_routes())
    if (route.method == method && route.path == path) return route;
  FAIL("no route ", method, " ", path);
  return {};
}

// The joined answer of controllers a, b, … to GET `path`.
std::string joined(const std::string& path, const std::vector<std::string>& bodies) {
  std::vector<net::ReplicaAnswer> answers;
  char name = 'a';
  for (const std::string& body : bodies) answers.push_back({std::string(1, name++), body});
  const net::AdminRoute route = route_of("GET", path);
  REQUIRE(route.merge != net::AdminMerge::kFirst);  // else one controller is asked
  return net::join_answers(route, answers);
}

}  // namespace

TEST_SUITE("net::admin_routes") {
  TEST_CASE("answers have the members that the table names") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor);
    host.spec.put_namespace("shop");
    for (const char* account : {"a", "b"}) host.spec.put_service_account({"shop", account});
    host.provider.put_workload({{"shop", "vm"},
                                ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                                {"shop", "a"},
                                "10.1.0.1",
                                {},
                                {}});
    REQUIRE(host.serves());
    const net::Handler api = net::make_admin_api(
        {.runtime = {executor, executor, host.clock, host.rng, host.log, host.metrics},
         .control_plane = *host.mesh,
         .spec = host.spec,
         .certificates = *host.certificates});
    for (const std::string path :
         {"/v1/version", "/v1/proxies", "/v1/policy/check", "/v1/policy/explain", "/v1/graph",
          "/v1/problems", "/v1/providers", "/v1/certificates", "/v1/denied", "/v1/roots",
          "/v1/policies", "/v1/services", "/v1/identities", "/v1/proxies/services"}) {
      CAPTURE(path);
      net::Request request = net::parse_target(path).value();
      request.query = {
          {"source", "shop/a"},  {"destination", "shop/b"},
          {"port", "80"},        {"name", path == "/v1/services" ? "shop/one" : "shop/a"},
          {"namespace", "shop"}, {"uuid", "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}};
      request.method = "GET";
      net::Response response;
      osm::testing::wait_until([&] { return (response = api(request)).status == 200; });
      REQUIRE_MESSAGE(response.status == 200, response.body);
      const json::value answer = json::parse(response.body);
      std::set<std::string> members;
      for (const auto& [name, value] : answer.as_object()) members.insert(std::string(name));
      std::istringstream fields{std::string(route_of("GET", path).fields)};
      CHECK(members == std::set<std::string>(std::istream_iterator<std::string>(fields), {}));
    }
  }

  TEST_CASE("a route is there once, and a request that changes something goes to one controller") {
    std::set<std::string> seen;
    for (const net::AdminRoute& route : net::admin_routes()) {
      CAPTURE(route.path);
      CHECK(seen.insert(std::string(route.method) + ' ' + std::string(route.path)).second);
      if (route.method == "POST") CHECK(route.merge == net::AdminMerge::kFirst);
    }
    // Each controller has the whole answer.
    for (const char* path :
         {"/v1/objects", "/v1/policies", "/v1/services", "/v1/identities", "/v1/proxies/services"})
      CHECK(route_of("GET", path).merge == net::AdminMerge::kFirst);
  }

  TEST_CASE("lists are united, counts added, and a yes of one is a yes") {
    CHECK(joined("/v1/problems", {R"({"problems":[{"code":"x"},{"code":"y"}]})",
                                  R"({"problems":[{"code":"y"},{"code":"z"}]})"}) ==
          R"({"problems":[{"code":"x"},{"code":"y"},{"code":"z"}]})");
    CHECK(joined("/v1/certificates",
                 {R"({"certificates":["1"]})", R"({"certificates":["2","1"]})"}) ==
          R"({"certificates":["1","2"]})");
    CHECK(joined("/v1/vm/drained",
                 {R"({"drained":1,"controllers":1})", R"({"drained":0,"controllers":1})"}) ==
          R"({"drained":1,"controllers":2})");
    CHECK(joined("/v1/roots/distrust",
                 {R"({"signs":false,"proxies":2,"bundles":0,"some":["shop/a"]})",
                  R"({"signs":true,"proxies":3,"bundles":1,"some":["shop/b"]})"}) ==
          R"({"signs":true,"proxies":5,"bundles":1,"some":["shop/a","shop/b"]})");
  }

  TEST_CASE("each provider names its controller") {
    CHECK(joined("/v1/providers", {R"({"providers":[{"name":"vm","state":"current"}]})",
                                   R"({"providers":[{"name":"vm","state":"current"}]})"}) ==
          R"({"providers":[{"name":"vm","state":"current","replica":"a"},)"
          R"({"name":"vm","state":"current","replica":"b"}]})");
  }

  TEST_CASE("a root has the texts of the controller that knows them") {
    CHECK(
        joined("/v1/roots", {R"({"roots":[{"name":"old","waiting_for":""}]})",
                             R"({"roots":[{"name":"old","waiting_for":"3 proxies"},)"
                             R"({"name":"new","waiting_for":""}]})"}) ==
        R"({"roots":[{"name":"new","waiting_for":""},{"name":"old","waiting_for":"3 proxies"}]})");
  }

  TEST_CASE("a proxy is told of by its own controller, or by others if that one is silent") {
    // b lists the proxy of a too, and that of c, which did not answer. Controllers tell their names
    // with a number behind the pod's.
    const std::string own_of_a = R"({"uuid":"1","connected_at":"2024","replica":""})";
    const std::string a_at_b = R"({"uuid":"1","connected_at":"","replica":"a-0123456789abcdef"})";
    const std::string c_at_b = R"({"uuid":"3","connected_at":"","replica":"c-0123456789abcdef"})";
    CHECK(joined(
              "/v1/proxies",
              {R"({"proxies":[)" + own_of_a +
                   R"(],"expected":[{"common_name":"1","claimed":false}],"participants":["1"]})",
               R"({"proxies":[)" + a_at_b + ',' + c_at_b +
                   R"(],"expected":[{"common_name":"1","claimed":true}],"participants":["3"]})"}) ==
          R"({"proxies":[{"uuid":"1","connected_at":"2024","replica":"a"},)"
          R"({"uuid":"3","connected_at":"","replica":"c"}],)"
          R"("expected":[{"common_name":"1","claimed":true}],"participants":["1","3"]})");
  }

  TEST_CASE("controllers may be asked by the names that they tell") {
    const std::string name = "controller-0123456789abcdef";
    const net::AdminRoute route = route_of("GET", "/v1/proxies");
    const std::string own = R"({"proxies":[{"uuid":"1","connected_at":"2024","replica":""}]})";
    const std::string of_b =
        R"({"proxies":[{"uuid":"1","connected_at":"","replica":")" + name + R"("}]})";
    CHECK(net::join_answers(route, {{name, own}, {"b", of_b}}) ==
          R"({"proxies":[{"uuid":"1","connected_at":"2024","replica":")" + name +
              R"("}],"expected":[]})");
  }

  TEST_CASE("a body that is no JSON object adds nothing") {
    CHECK(joined("/v1/problems", {"nonsense", R"({"problems":["x"]})", "[]"}) ==
          R"({"problems":["x"]})");
  }
}
