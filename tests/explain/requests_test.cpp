// The explanation of a request reads its path, its host and its headers as Envoy does.
// tests/security/requests_test.py and oracle_test.py compare the same answers with real Envoys.
#include "explained_shop.hpp"
#include "osm/values/egress.hpp"

using namespace osm;
using namespace osm::explain;
using namespace osm::explain::values;

TEST_SUITE("explain") {
  TEST_CASE("paths follow the annotation of the Service") {
    Shop shop;
    smi::HttpRouteGroup group = routes("books", {"read"});
    group.matches.front().path_regex = "/books/.*";
    shop.spec.put(group);
    const auto answer = [&](HttpPaths paths, const char* path) {
      Service changed = service("api", "10.1.0.1");
      changed.http_paths = paths;
      shop.spec.put(changed);
      const auto told = shop.call("shop/web", "shop/api", 80, path);
      return told.verdict() == CallVerdict::kAllowed ? 200 : status(told);
    };
    CHECK(answer(HttpPaths::kStrict, "/books/a%2Fb") == 403);
    CHECK(answer(HttpPaths::kNormalize, "/books/a%2Fb") == 400);
    CHECK(answer(HttpPaths::kUnchecked, "/books/a%2Fb") == 200);
    CHECK(answer(HttpPaths::kNormalize, "/x/..//books/%31") == 200);
    CHECK(answer(HttpPaths::kNormalize, "/books/../x") == 404);
    CHECK(answer(HttpPaths::kStrict, "/books/..?q=//") == 403);
    CHECK(answer(HttpPaths::kStrict, "/books/1?q=/../") == 200);
  }

  TEST_CASE("a header name with an underscore is refused, unless the Service takes any") {
    Shop shop;
    shop.admit_gateways();
    const auto send = [&](const std::string& source, int at, const char* header) {
      const auto told = shop.ask({.source = source,
                                  .destination = "shop/api",
                                  .port = port(at),
                                  .path = "/read",
                                  .headers = {{header, "x"}}});
      REQUIRE(told.ok());
      return *told;
    };
    const std::pair<const char*, int> ways[] = {{"shop/web", 80}, {"gateway:198.51.100.7", 8080}};
    for (const auto& [source, at] : ways) {
      CAPTURE(source);
      const auto refused = send(source, at, "x_forwarded_client_cert");
      CHECK(status(refused) == 400);
      CHECK(has(decision(refused),
                "denies Service shop/api: the header name x_forwarded_client_cert"));
      CHECK(refused.ways.front().steps.back().field ==
            "metadata.annotations[openservicemesh.io/http-header-names]");
      CHECK(send(source, at, "x-level").verdict() == CallVerdict::kAllowed);
    }
    Service unchecked = service("api", "10.1.0.1");
    unchecked.header_names = HeaderNames::kUnchecked;
    shop.spec.put(unchecked);
    for (const auto& [source, at] : ways)
      CHECK(send(source, at, "x_level").verdict() == CallVerdict::kAllowed);
  }

  TEST_CASE("names are read in any case, with a dot at their end and with a port") {
    Shop shop;
    const std::string full = "api.shop.svc.cluster.local";
    for (const std::string& name : {std::string("api.shop:80"), full + '.', full + ".:80",
                                    std::string("API.Shop."), std::string("host:api.shop.")})
      CHECK_MESSAGE(shop.call("shop/web", name).verdict() == CallVerdict::kAllowed, name);
    CHECK(shop.call("shop/web", "api.shop:80", 0).verdict() == CallVerdict::kAllowed);
    CHECK(status(shop.call("shop/web", "api.shop:81")) == 404);  // the Host header names the port
    CHECK(shop.call("shop/web", "shop/api", 80, "/read", "GET", full + ".:80").verdict() ==
          CallVerdict::kAllowed);
    const auto with_host = [&](const std::string& host) {
      return shop.call("shop/web", "shop/api", 80, "/read", "GET", host).verdict();
    };
    CHECK(with_host("api.shop:80.") == CallVerdict::kAllowed);
    for (const char* host : {"api.shop..", "api.shop.:80.", "api.shop..:80"})  // one dot is taken
      CHECK_MESSAGE(with_host(host) == CallVerdict::kDenied, host);
    shop.spec.put(service("api", "10.1.0.1"));  // one port
    CHECK(shop.call("shop/web", "10.1.0.1:80", 80, "/read", "GET", "api.shop.").verdict() ==
          CallVerdict::kAllowed);
    CHECK(status(shop.call("shop/web", "10.1.0.1", 0)) == 404);  // it has one port, and other names
  }

  TEST_CASE("an upgrade to another protocol than WebSocket is refused, and one to TLS ignored") {
    Shop shop;
    const auto ask = [&](const std::string& upgrade, const std::string& connection = "Upgrade") {
      const auto told = shop.ask({.source = "shop/web",
                                  .destination = "shop/api",
                                  .port = port(80),
                                  .path = "/read",
                                  .headers = {{"upgrade", upgrade}, {"connection", connection}}});
      REQUIRE(told.ok());
      return told->verdict() == CallVerdict::kAllowed ? 200 : status(*told);
    };
    CHECK(ask("WebSocket") == 200);
    CHECK(ask("TLS/1.2") == 200);
    CHECK(ask("TLS/1.2, WebSocket") == 200);
    CHECK(ask("H2C") == 200);
    CHECK(ask("TLS/1.2, h2c") == 403);  // HTTP/2 is ignored alone only
    CHECK(ask("irc/6.9") == 403);
    CHECK(ask("TLS/1.2, irc/6.9") == 403);
    CHECK(ask("irc/6.9", "keep-alive, upgrade") == 403);
    for (const char* connection : {"close", "upgrade-later"})  // no upgrade is asked for
      CHECK_MESSAGE(ask("irc/6.9", connection) == 200, connection);
  }

  TEST_CASE("a request without a route, or with a bad header name, is refused before its upgrade") {
    Shop shop;
    shop.admit_gateways();
    Egress pay;
    pay.sources = {identity("web")};
    pay.hosts = std::vector<EgressHost>{{"pay.example.com", std::nullopt}};
    pay.ports = {{port(80), EgressProtocol::kHttp}};
    pay.route_groups = std::vector<std::string>{"books"};
    shop.spec.put(Policy({kinds::kEgress, kNs, "pay"}, pay));
    const auto ask = [&](CallQuestion question) {
      question.headers.emplace("connection", "upgrade");
      question.headers.emplace("upgrade", "x");
      const auto told = shop.ask(question);
      REQUIRE(told.ok());
      return status(*told);
    };
    const auto leave = [&](const std::string& host, const std::string& path) {
      return ask({.source = "shop/web",
                  .destination = "192.0.2.7",
                  .port = port(80),
                  .path = path,
                  .host = host});
    };
    CHECK(leave("pay.example.com", "/read") == 403);
    CHECK(leave("pay.example.com", "/other") == 404);
    CHECK(leave("other.example.com", "/read") == 404);
    const auto call = [&](const std::string& host) {
      return ask({.source = "shop/web",
                  .destination = "shop/api",
                  .port = port(80),
                  .path = "/read",
                  .host = host});
    };
    CHECK(call("api.shop") == 403);
    CHECK(call("other.example.com") == 404);
    CHECK(ask({.source = "gateway:198.51.100.7",
               .destination = "shop/api",
               .port = port(8080),
               .path = "/read",
               .headers = {{"x_level", "x"}}}) == 400);
  }

  TEST_CASE("several lines of Cookie are joined as Envoy joins them") {
    Shop shop;
    smi::HttpRouteGroup group = routes("books", {"read"});
    const auto ask = [&](const char* rule, Protocol protocol) {
      group.matches[0].headers = {{"cookie", rule}};
      shop.spec.put(group);
      shop.spec.put(service("api", "10.1.0.1", {service_port("http", 80, 8080, protocol)}));
      const auto told = shop.ask({.source = "shop/web",
                                  .destination = "shop/api",
                                  .path = "/read",
                                  .headers = {{"cookie", "a=1"}},
                                  .more_cookies = {"b=2", "c=3"}});
      REQUIRE(told.ok());
      return told->verdict() == CallVerdict::kAllowed;
    };
    CHECK(ask("a=1,b=2,c=3", Protocol::kHttp));
    CHECK_FALSE(ask("a=1; b=2; c=3", Protocol::kHttp));
    for (const Protocol protocol : {Protocol::kGrpc, Protocol::kH2c}) {
      CHECK(ask("a=1; b=2; c=3", protocol));
      CHECK_FALSE(ask("a=1,b=2,c=3", protocol));
    }
  }
}
