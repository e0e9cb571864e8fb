// The admin API answers questions to the catalog: policies, services, identities, and services of a
// proxy.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "embedding/host.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/values/ingress_backend.hpp"

using namespace osm;
using namespace osm::embedding_test;

namespace {

const std::string kProxyOfOne = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

// shop/web may call Service shop/one, whose account is shop/api. Two providers list endpoints.
struct AskedMesh {
  AskedMesh() {
    host.spec.put_namespace("shop");
    host.spec.put_service_account({"shop", "web"});
    host.spec.put_service_account({"shop", "idle"});
    Endpoint heavy = endpoint("10.0.0.2");
    heavy.zone = "b";
    heavy.weight = 3;
    host.provider.set_endpoints({"shop", "one"}, {endpoint("10.0.0.1")});
    machines.set_endpoints({"shop", "one"}, {heavy});
    host.provider.put_workload({{"shop", "one-1"},
                                ProxyId(kProxyOfOne),
                                {"shop", "api"},
                                "10.0.0.1",
                                {},
                                {{"shop", "one"}}});
    smi::TrafficTarget target{
        .name = {"shop", "web-api"}, .destination = {"shop", "api"}, .sources = {}, .rules = {}};
    target.sources.push_back({"shop", "web"});
    target.rules.push_back(
        {.kind = smi::RouteKind::kHttpRouteGroup, .name = "books", .matches = {"read"}});
    smi::HttpRouteGroup group{.name = {"shop", "books"}, .matches = {}};
    group.matches.push_back(
        {.name = "read", .path_regex = "/books.*", .methods = {"GET"}, .headers = {}});
    host.spec.put(group);
    host.spec.put(target);
    IngressBackend edge;
    edge.backends = {{.service = {"shop", "one"}, .target_port = Port{8080}, .tls = IngressTls{}}};
    edge.principals = {"gateway.example"};
    host.spec.put(Policy({kinds::kIngressBackend, "shop", "edge"}, edge));
    host.mesh.reset();
    auto started = start(host.spec);
    REQUIRE(started.ok());
    host.mesh = *std::move(started);
    REQUIRE(host.serves());
    REQUIRE(osm::testing::wait_until([&] {
      const net::Response policies = ask("/v1/policies");
      return policies.body.find("web-api") != std::string::npos &&
             ask("/v1/services?name=shop/one").body.find("edge") != std::string::npos;
    }));
  }

  static Endpoint endpoint(const char* address) {
    return {.address = address,
            .port = Port{8080},
            .service_port = "http",
            .identity = {"shop", "api"},
            .zone = {},
            .weight = {}};
  }

  Runtime runtime() { return {executor, executor, host.clock, host.rng, host.log, host.metrics}; }
  // A mesh with both providers.
  Result<std::unique_ptr<ControlPlane>> start(MeshSpec& spec) {
    return ControlPlane::start({.spec = spec,
                                .providers = {{&host.provider}, {&machines}},
                                .workload_providers = {&host.provider},
                                .certificates = *host.certificates,
                                .runtime = runtime(),
                                .ads_address = ""});
  }
  net::Response ask(const std::string& target, ControlPlane& mesh, MeshSpec& spec) {
    net::Request request = net::parse_target(target).value();
    request.method = "GET";
    return net::make_admin_api({.runtime = runtime(),
                                .control_plane = mesh,
                                .spec = spec,
                                .certificates = *host.certificates})(request);
  }
  net::Response ask(const std::string& target) { return ask(target, *host.mesh, host.spec); }
  // The answer to GET `target`.
  boost::json::value answer(const std::string& target) {
    const net::Response response = ask(target);
    CHECK_MESSAGE(response.status == 200, response.body);
    return boost::json::parse(response.body);
  }
  // The error's "code: message".
  std::string refusal(const std::string& target) {
    const auto answered = boost::json::parse(ask(target).body);
    const auto& error = answered.at("error").as_object();
    return boost::json::value_to<std::string>(error.at("code")) + ": " +
           boost::json::value_to<std::string>(error.at("message"));
  }

  osm::testing::ThreadExecutor executor{2};
  osm::testing::MemoryEndpointsProvider machines{"machines"};
  Host host{executor};
};

}  // namespace

TEST_SUITE("net::admin_api: the catalog") {
  TEST_CASE("each route has what the catalog knows") {
    AskedMesh mesh;
    CHECK(mesh.answer("/v1/policies") ==
          boost::json::parse(R"({"mode":"SMI","policies":[{"object":"TrafficTarget shop/web-api",
            "path":"","line":0,"routes":["GET /books.*"],"source":"shop/web","source_services":[],
            "destination":"shop/api","destination_services":["shop/one"]}]})"));
    CHECK(mesh.answer("/v1/services?name=shop/one") ==
          boost::json::parse(R"({"service":"shop/one","identities":["shop/api"],"endpoints":[
            {"address":"10.0.0.1","port":8080,"service_port":"http","identity":"shop/api",
             "zone":"","weight":null,"provider":"memory"},
            {"address":"10.0.0.2","port":8080,"service_port":"http","identity":"shop/api",
             "zone":"b","weight":3,"provider":"machines"}],
            "ingress":[{"object":"IngressBackend shop/edge","target_port":8080,
             "encryption":"mTLS","networks":null,"principals":["gateway.example"]}]})"));
    CHECK(mesh.answer("/v1/services?name=shop%2Fone") == mesh.answer("/v1/services?name=shop/one"));
    CHECK(mesh.answer("/v1/identities?name=shop/api") ==
          boost::json::parse(R"({"identity":"shop/api","mode":"SMI","inbound":["shop/web"],
            "outbound":[],"services":[{"service":"shop/one","port_name":"http","port":80,
            "target_port":8080,"protocol":"http"}]})"));
    const auto caller = mesh.answer("/v1/identities?name=shop/web");
    CHECK(caller.at("outbound") == boost::json::array{"shop/api"});
    CHECK(caller.at("inbound").as_array().empty());
    CHECK(mesh.answer("/v1/proxies/services?namespace=shop&uuid=" + kProxyOfOne) ==
          boost::json::parse(R"({"namespace":"shop","uuid":")" + kProxyOfOne +
                             R"(","services":[{"service":"shop/one","port_name":"http","port":80,
            "target_port":8080,"protocol":"http"}]})"));
  }

  TEST_CASE("an account that nobody uses has no callers, in permissive mode all") {
    AskedMesh mesh;
    CHECK(mesh.answer("/v1/identities?name=shop/idle").at("inbound").as_array().empty());
    MeshConfig config;
    config.proxy.permissive = true;
    mesh.host.spec.set_mesh_config(config);
    CHECK(osm::testing::wait_until([&] {
      const auto idle = mesh.answer("/v1/identities?name=shop/idle");
      return idle.at("mode") == boost::json::value("permissive") &&
             !idle.at("inbound").as_array().empty();
    }));
    CHECK(mesh.answer("/v1/policies").at("policies").as_array().size() == 1);
  }

  TEST_CASE("a wrong question names its parameter, and an unknown name what is missing") {
    AskedMesh mesh;
    CHECK(mesh.refusal("/v1/services?name=one") ==
          "invalid-argument: name 'one' is not a Service; write <namespace>/<name>");
    CHECK(mesh.refusal("/v1/services?name=shop/one/two") ==
          "invalid-argument: name 'shop/one/two' is not a Service; write <namespace>/<name>");
    CHECK(mesh.refusal("/v1/services?name=shop/gone")
              .starts_with("not-found: Service shop/gone is not in the mesh"));
    CHECK(mesh.refusal("/v1/identities?name=shop/") ==
          "invalid-argument: name 'shop/' is not a service account; write <namespace>/<account>");
    CHECK(mesh.refusal("/v1/identities?name=shop/nobody")
              .starts_with("not-found: service account shop/nobody is not in the mesh"));
    CHECK(mesh.refusal("/v1/proxies/services?namespace=shop&uuid=one-1")
              .starts_with("invalid-argument: uuid 'one-1' is not a proxy's UUID"));
    CHECK(mesh.refusal("/v1/proxies/services?namespace=other&uuid=" + kProxyOfOne) ==
          "not-found: no workload of namespace other has the proxy UUID " + kProxyOfOne +
              "; `osm proxy list --expected` shows UUIDs");
    CHECK(mesh.ask("/v1/services").status == 400);
  }

  TEST_CASE("a mesh that is not read yet is not ready") {
    AskedMesh mesh;
    osm::testing::MemoryMeshSpec unread;
    unread.set_synced(false);
    const auto started = mesh.start(unread);
    REQUIRE(started.ok());
    for (const std::string& target :
         {std::string("/v1/policies"), std::string("/v1/services?name=shop/one"),
          std::string("/v1/identities?name=shop/api"),
          "/v1/proxies/services?namespace=shop&uuid=" + kProxyOfOne}) {
      const net::Response response = mesh.ask(target, **started, unread);
      CHECK_MESSAGE(response.status == 503, response.body);
      CHECK(response.body.find("not-ready") != std::string::npos);
    }
  }
}
