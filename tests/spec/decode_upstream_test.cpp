#include <doctest/doctest.h>

#include <chrono>

#include "osm/spec/kinds.hpp"
#include "osm/values/upstream_traffic_setting.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;
using namespace std::chrono_literals;

namespace {

std::string_view kind() { return kinds::kUpstreamTrafficSetting.kind; }

DecodedPolicy decoded(std::string_view spec) {
  return decode_upstream_traffic_setting(object_of(kPolicyApi, std::string(kind()), spec));
}

const std::string kHost = "host: api.shop.svc.cluster.local\n";

std::string http_limit(const std::string& more) {
  return kHost + "rateLimit: {local: {http: {requests: 1, unit: second" + more + "}}}";
}

}  // namespace

TEST_SUITE("spec.upstream_traffic_setting") {
  TEST_CASE("an UpstreamTrafficSetting is read, and reaches the proxies around its Service") {
    const DecodedPolicy setting = decoded(kHost + R"(connectionSettings:
  tcp: {maxConnections: 0, connectTimeout: 1.5s}
  http: {maxRequests: 1, maxRequestsPerConnection: 2, maxPendingRequests: 3, maxRetries: 4}
rateLimit:
  local:
    tcp: {connections: 1, unit: hour, burst: 0}
    http:
      requests: 1
      unit: minute
      burst: 9
      responseStatusCode: 503
      responseHeadersToAdd: [{name: x-limited, value: ''}]
httpRoutes:
- path: /books/.*
  rateLimit: {local: {requests: 4294967295, unit: second}}
- path: /)");
    CHECK(setting.problems.empty());
    REQUIRE(setting.value);
    const auto& read = *setting.value->get<UpstreamTrafficSetting>();
    CHECK(read.service == ServiceName{"shop", "api"});
    CHECK(read.limits.connections == ConnectionSettings{0, 3, 1, 4, 2, 1500ms});
    CHECK(read.limits.tcp == LocalRateLimit{1, 3600s, 0});
    CHECK(read.limits.http == HttpLocalRateLimit{{1, 60s, 9}, 503, {{"x-limited", ""}}});
    CHECK(read.limits.paths ==
          std::vector<HttpRouteRateLimit>{{"/books/.*", {{4294967295, 1s, 0}, 429, {}}}});
    CHECK_FALSE(setting.value->reach.everything);
    CHECK(setting.value->reach.services == std::set{ServiceName{"shop", "api"}});
  }

  TEST_CASE("every form of a Service's name is the same Service, and limits are optional") {
    for (const char* host : {"api.shop", "api.shop.svc", "api.shop.svc.cluster.local"}) {
      CAPTURE(host);
      const DecodedPolicy setting = decoded(std::string("host: ") + host);
      REQUIRE(setting.value);
      CHECK(*setting.value->get<UpstreamTrafficSetting>() ==
            UpstreamTrafficSetting{{"shop", "api"}, {}});
    }
  }

  TEST_CASE("a global limit is said to have no effect, and the rest is read") {
    const DecodedPolicy setting = decoded(kHost + R"(rateLimit:
  global: {http: {domain: a}}
  local: {tcp: {connections: 3, unit: minute}}
httpRoutes: [{path: /, rateLimit: {global: {}}}])");
    REQUIRE(setting.value);
    CHECK(setting.value->get<UpstreamTrafficSetting>()->limits.tcp == LocalRateLimit{3, 60s, 0});
    REQUIRE(setting.problems.size() == 2);
    CHECK(setting.problems[0].field == "spec.rateLimit.global");
    CHECK(setting.problems[1].field == "spec.httpRoutes[0].rateLimit.global");
    for (const Problem& problem : setting.problems) CHECK(problem.code == ErrorCode::kUnusedField);
  }

  TEST_CASE("faults of an UpstreamTrafficSetting are refused with their fields") {
    const std::string http = "spec.rateLimit.local.http.";
    check_refused(
        decode_upstream_traffic_setting, kPolicyApi, kind(),
        {
            {"connectionSettings: {}", "spec.host", "required"},
            {"host: api", "spec.host", "with its namespace"},
            {"host: Api.shop", "spec.host", "with its namespace"},
            {"host: api.shop.svc.cluster", "spec.host", "with its namespace"},
            {"host: api.shop.example", "spec.host", "with its namespace"},
            {"host: api.store", "spec.host", "own namespace, shop", ErrorCode::kCrossNamespace},
            {kHost + "hosts: []", "spec.hosts", "no such field"},
            {kHost + "connectionSettings: {tcp: {maxConnections: -1}}",
             "spec.connectionSettings.tcp.maxConnections", "from 0 to"},
            {kHost + "connectionSettings: {tcp: {connectTimeout: 5}}",
             "spec.connectionSettings.tcp.connectTimeout", "must be a string"},
            {kHost + "connectionSettings: {tcp: {connectTimeout: 0s}}",
             "spec.connectionSettings.tcp.connectTimeout", "from 1ms to 1h"},
            {kHost + "connectionSettings: {http: {maxRequests: -1}}",
             "spec.connectionSettings.http.maxRequests", "from 0 to"},
            {kHost + "connectionSettings: {http: {maxRequestsPerConnection: -1}}",
             "spec.connectionSettings.http.maxRequestsPerConnection", "from 0 to"},
            {kHost + "connectionSettings: {http: {maxPendingRequests: -1}}",
             "spec.connectionSettings.http.maxPendingRequests", "from 0 to"},
            {kHost + "connectionSettings: {http: {maxRetries: 4294967296}}",
             "spec.connectionSettings.http.maxRetries", "from 0 to"},
            {kHost + "rateLimit: {local: {tcp: {connections: 0, unit: second}}}",
             "spec.rateLimit.local.tcp.connections", "from 1 to"},
            {kHost + "rateLimit: {local: {tcp: {unit: second}}}",
             "spec.rateLimit.local.tcp.connections", "required"},
            {kHost + "rateLimit: {local: {tcp: {connections: 1}}}", "spec.rateLimit.local.tcp.unit",
             "required"},
            {kHost + "rateLimit: {local: {tcp: {connections: 1, unit: day}}}",
             "spec.rateLimit.local.tcp.unit", "second, minute, hour"},
            {kHost + "rateLimit: {local: {tcp: {connections: 1, unit: hour, burst: -1}}}",
             "spec.rateLimit.local.tcp.burst", "from 0 to"},
            {kHost + "rateLimit: {local: {http: {requests: 0, unit: hour}}}", http + "requests",
             "from 1 to"},
            {http_limit(", responseStatusCode: 399"), http + "responseStatusCode",
             "from 400 to 599"},
            {http_limit(", responseStatusCode: 600"), http + "responseStatusCode",
             "from 400 to 599"},
            {http_limit(", responseStatusCode: 418"), http + "responseStatusCode",
             "no status code"},
            {http_limit(", responseHeadersToAdd: [{value: a}]"),
             http + "responseHeadersToAdd[0].name", "required"},
            {http_limit(", responseHeadersToAdd: [{name: 'a b', value: a}]"),
             http + "responseHeadersToAdd[0].name", "not an HTTP header name"},
            {http_limit(", responseHeadersToAdd: [{name: a}]"),
             http + "responseHeadersToAdd[0].value", "required"},
            {http_limit(", responseHeadersToAdd: [{name: a, value: \"b\\r\\nc: d\"}]"),
             http + "responseHeadersToAdd[0].value", "one line"},
            {kHost + "httpRoutes: [{rateLimit: {}}]", "spec.httpRoutes[0].path", "required"},
            {kHost + "httpRoutes: [{path: ''}]", "spec.httpRoutes[0].path", "must not be empty"},
            {kHost + "httpRoutes: [{path: '('}]", "spec.httpRoutes[0].path", "not an RE2 regex",
             ErrorCode::kInvalidRegex},
            {kHost + "httpRoutes: [{path: /, rateLimit: {local: {requests: 1, unit: day}}}]",
             "spec.httpRoutes[0].rateLimit.local.unit", "second, minute, hour"},
        });
  }

  TEST_CASE("a mistyped field of an UpstreamTrafficSetting is refused at every depth") {
    const std::string x = "no such field";
    const std::string http = "spec.rateLimit.local.http.";
    check_refused(
        decode_upstream_traffic_setting, kPolicyApi, kind(),
        {
            {kHost + "connectionSettings: {x: 1}", "spec.connectionSettings.x", x},
            {kHost + "connectionSettings: {tcp: {x: 1}}", "spec.connectionSettings.tcp.x", x},
            {kHost + "connectionSettings: {http: {x: 1}}", "spec.connectionSettings.http.x", x},
            {kHost + "rateLimit: {local: {x: 1}}", "spec.rateLimit.local.x", x},
            {kHost + "rateLimit: {local: {tcp: {connections: 1, unit: hour, x: 1}}}",
             "spec.rateLimit.local.tcp.x", x},
            {http_limit(", x: 1"), http + "x", x},
            {http_limit(", responseHeadersToAdd: [{name: a, value: b, x: 1}]"),
             http + "responseHeadersToAdd[0].x", x},
            {kHost + "httpRoutes: [{path: /, x: 1}]", "spec.httpRoutes[0].x", x},
        });
  }
}
