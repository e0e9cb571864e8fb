// The admin API reads the headers of a request to explain as Envoy reads them.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>

#include "embedding/host.hpp"
#include "osm/net/admin_api.hpp"

using namespace osm;
using namespace osm::embedding_test;

namespace {

// shop/web may call Service shop/one with the header x-tenant that the text matches.
struct ExplainedTenant {
  explicit ExplainedTenant(const std::string& tenant) {
    host.spec.put_namespace("shop");
    host.spec.put_service_account({"shop", "web"});
    host.provider.set_endpoints({"shop", "one"}, {{.address = "10.0.0.1",
                                                   .port = Port{8080},
                                                   .service_port = "http",
                                                   .identity = {"shop", "api"},
                                                   .zone = std::nullopt,
                                                   .weight = std::nullopt}});
    smi::HttpRouteGroup group{.name = {"shop", "api"}, .matches = {}};
    group.matches.push_back(
        {.name = "m", .path_regex = ".*", .methods = {}, .headers = {{"x-tenant", tenant}}});
    host.spec.put(group);
    smi::TrafficTarget target{
        .name = {"shop", "api"}, .destination = {"shop", "api"}, .sources = {}, .rules = {}};
    target.sources.push_back({"shop", "web"});
    target.rules.push_back(
        {.kind = smi::RouteKind::kHttpRouteGroup, .name = "api", .matches = {"m"}});
    host.spec.put(target);
    REQUIRE(host.serves());
    REQUIRE(osm::testing::wait_until([&] { return verdict("x-tenant: " + tenant) == "allowed"; }));
  }

  // "allowed", or what else is said of a request with these lines.
  std::string verdict(const std::string& headers) {
    const net::AdminApiOptions options{
        .runtime = {executor, executor, host.clock, host.rng, host.log, host.metrics},
        .control_plane = *host.mesh,
        .spec = host.spec,
        .certificates = *host.certificates};
    net::Request request = net::parse_target("/v1/policy/explain").value();
    request.method = "GET";
    request.query = {
        {"source", "shop/web"}, {"destination", "shop/one"}, {"path", "/"}, {"headers", headers}};
    const net::Response response = net::make_admin_api(options)(request);
    if (response.status != 200) return response.body;
    return boost::json::value_to<std::string>(
        boost::json::parse(response.body).as_object().at("verdict"));
  }

  osm::testing::ThreadExecutor executor{2};
  Host host{executor};
};

}  // namespace

TEST_SUITE("embedding") {
  TEST_CASE("a header that is given twice is explained as one with both values") {
    ExplainedTenant one("a");
    CHECK(one.verdict("X-Tenant: a") == "allowed");
    CHECK(one.verdict("X-Tenant: b\nX-Tenant: a") == "denied");
    CHECK(one.verdict("X-Tenant: a\nx-tenant: a") == "denied");
    ExplainedTenant both("b,a");
    CHECK(both.verdict("X-Tenant: b\nX-Tenant: a") == "allowed");
    CHECK(both.verdict("X-Tenant: a\nX-Tenant: b") == "denied");
  }
}
