// The table of the admin API's routes: answers have its fields, and its rules join answers of
// several controllers.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <chrono>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "embedding/host.hpp"
#include "osm/certificate/request.hpp"
#include "osm/mesh_cataloger.hpp"
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

  TEST_CASE("certificates of machines and pods are claimed once their proxies have connected") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor);
    REQUIRE(host.serves());
    const Workload machine{{"shop", "vm"},
                           ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                           {"shop", "a"},
                           "10.1.0.1",
                           {},
                           {}};
    const auto made = certificate::make_request(host.mesh->proxy_subject(machine));
    REQUIRE(made.ok());
    const auto issued =
        host.mesh->issue_proxy_certificate(machine, made->request_pem, std::chrono::hours(1));
    REQUIRE(issued.ok());
    const WallTime now = host.clock.wall_now();
    IssuedCertificate pod{.common_name = CommonName("pod-1.shop"),
                          .spiffe_id = SpiffeId("spiffe://one.example/osm/pod/1/shop/b"),
                          .proxy_id = ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c9"),
                          .kind = WorkloadKind::kPod,
                          .serial_number = "b1",
                          .not_before = now,
                          .not_after = now + std::chrono::hours(2)};
    IssuedCertificate idle = pod;
    idle.common_name = CommonName("pod-2.shop");
    idle.serial_number = "b2";
    std::optional<std::vector<IssuedCertificate>> pods;
    const net::Handler api = net::make_admin_api(
        {.runtime = {executor, executor, host.clock, host.rng, host.log, host.metrics},
         .control_plane = *host.mesh,
         .spec = host.spec,
         .certificates = *host.certificates,
         .issued = host.issued.get(),
         .pod_certificates = [&] { return pods; }});
    const auto ask = [&] {
      net::Request request = net::parse_target("/v1/certificates?all=true").value();
      request.method = "GET";
      const net::Response response = api(request);
      REQUIRE_MESSAGE(response.status == 200, response.body);
      return json::parse(response.body).as_object();
    };
    const auto claims = [&] {
      std::string told;
      for (const json::value& one : ask().at("certificates").as_array())
        told += std::string(one.at("kind").as_string()) +
                (one.at("claimed").as_bool() ? ": claimed, " : ": unclaimed, ");
      return told;
    };
    CHECK(claims() == "machine: unclaimed, ");
    CHECK_FALSE(ask().at("pods").as_bool());
    pods = {pod, idle};
    CHECK(claims() == "machine: unclaimed, pod: unclaimed, pod: unclaimed, ");
    CHECK(ask().at("pods").as_bool());

    Proxy proxy;
    proxy.id = machine.proxy_id;
    proxy.common_name = (*issued)->subject.common_name;
    proxy.certificate_spiffe_id = (*issued)->subject.spiffe_id;
    proxy.certificate_serial_number = (*issued)->serial_number;
    proxy.certificate_not_before = (*issued)->not_before;
    proxy.certificate_not_after = (*issued)->not_after;
    host.mesh->catalog().register_proxy(proxy);
    proxy.id = pod.proxy_id;
    proxy.kind = WorkloadKind::kPod;
    proxy.common_name = pod.common_name;
    proxy.certificate_serial_number = pod.serial_number;
    proxy.certificate_not_after = pod.not_after;
    host.mesh->catalog().register_proxy(proxy);
    CHECK(claims() == "machine: claimed, pod: claimed, pod: unclaimed, ");
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
        R"({"roots":[{"name":"old","waiting_for":"3 proxies"},{"name":"new","waiting_for":""}]})");
  }

  TEST_CASE("a certificate is claimed if one controller knows that") {
    CHECK(joined("/v1/certificates",
                 {R"({"certificates":[{"serial_number":"2","issuer":"","claimed":true},)"
                  R"({"serial_number":"3"}],"dropped":false})",
                  R"({"certificates":[{"serial_number":"1"},)"
                  R"({"serial_number":"2","issuer":"ca","claimed":false}],"dropped":true})"}) ==
          R"({"certificates":[{"serial_number":"2","issuer":"ca","claimed":true},)"
          R"({"serial_number":"3"},{"serial_number":"1"}],"dropped":true})");
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
