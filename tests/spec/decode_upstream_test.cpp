// An UpstreamTrafficSetting is read, and one for another namespace's Service is refused.
#include <doctest/doctest.h>

#include <chrono>

#include "model/links.hpp"
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

// The same header several times.
std::string headers(int count, const std::string& name, const std::string& value) {
  std::string list;
  for (int i = 0; i < count; ++i)
    list += (i == 0 ? "{name: " : ", {name: ") + name + ", value: " + value + '}';
  return ", responseHeadersToAdd: [" + list + ']';
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
          std::vector<HttpRouteRateLimit>{
              {"/books/.*", HttpLocalRateLimit{{4294967295, 1s, 0}, 429, {}}}});
    CHECK(model::links_of(*setting.value).entries ==
          std::vector<model::EntryKey>{ServiceName{"shop", "api"}});
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

  TEST_CASE("idle times and outlier detection are read, with Envoy's defaults") {
    const auto limits_of = [](const std::string& settings) {
      const DecodedPolicy setting = decoded(kHost + "connectionSettings: " + settings);
      CHECK(setting.problems.empty());
      REQUIRE(setting.value);
      return setting.value->get<UpstreamTrafficSetting>()->limits;
    };
    const auto none = limits_of("{}");
    CHECK_FALSE(none.connections.outliers);
    CHECK(none.idle == IdleTimeouts());
    CHECK(limits_of("{outlierDetection: {}}").connections.outliers ==
          OutlierDetection{5, 10s, 30s, 10});
    const auto all = limits_of(R"({tcp: {idleTimeout: 720h}, http: {streamIdleTimeout: 0s},
      outlierDetection: {consecutive5xx: 1, interval: 1ms, baseEjectionTime: 1h,
        maxEjectionPercent: 0}})");
    CHECK(all.connections.outliers == OutlierDetection{1, 1ms, 1h, 0});
    CHECK(all.idle == IdleTimeouts{720h, 0ms});
    CHECK(limits_of("{tcp: {idleTimeout: 1ms}, http: {streamIdleTimeout: 0h0m}}").idle ==
          IdleTimeouts{1ms, 0ms});
    CHECK(limits_of("{http: {applicationIdleTimeout: 100ms}}").idle == IdleTimeouts{{}, {}, 100ms});
  }

  TEST_CASE("as many and as long headers as Envoy accepts are read") {
    const std::string name(1024, 'n'), value(1024, 'v');
    const DecodedPolicy setting = decoded(http_limit(headers(10, name, value)));
    CHECK(setting.problems.empty());
    REQUIRE(setting.value);
    const auto& read = setting.value->get<UpstreamTrafficSetting>()->limits.http;
    REQUIRE(read);
    REQUIRE(read->headers.size() == 10);
    CHECK(read->headers.back() == std::pair(name, value));
  }

  TEST_CASE("another host is no Service: an Egress may name the object") {
    for (const char* host : {"api.shop.svc.cluster", "api.shop.example", "api.store",
                             "api.store.svc.cluster.local", "example.com"}) {
      CAPTURE(host);
      const DecodedPolicy setting = decoded(std::string("host: ") + host);
      CHECK(setting.problems.empty());
      REQUIRE(setting.value);
      CHECK(setting.value->get<UpstreamTrafficSetting>()->service == ServiceName());
      CHECK(model::links_of(*setting.value).entries.empty());
    }
  }

  TEST_CASE("an UpstreamTrafficSetting finds its Service in the cluster's domain, too") {
    const auto service = [](const std::string& host) {
      const DecodedPolicy setting = decode_upstream_traffic_setting(
          object_of(kPolicyApi, std::string(kind()), "host: " + host), "k8s.corp.example");
      REQUIRE(setting.value);
      return setting.value->get<UpstreamTrafficSetting>()->service;
    };
    for (const char* host : {"api.shop", "api.shop.svc", "api.shop.svc.k8s.corp.example",
                             "api.shop.svc.cluster.local", "API.shop.svc.Cluster.local."})
      CHECK(service(host) == ServiceName{"shop", "api"});
    // Hosts of Egresses.
    for (const char* host :
         {"api.shop.svc.corp.example", "api.shop.k8s.corp.example", "api.far.svc.k8s.corp.example"})
      CHECK(service(host) == ServiceName());
  }

  TEST_CASE("faults of an UpstreamTrafficSetting are refused with their fields") {
    const std::string http = "spec.rateLimit.local.http.";
    check_refused(
        by_default(decode_upstream_traffic_setting), kPolicyApi, kind(),
        {
            {"connectionSettings: {}", "spec.host", "required"},
            {"host: api", "spec.host", "with its namespace"},
            {"host: a_pi.shop", "spec.host", "with its namespace"},
            {"host: 'https://example.com'", "spec.host", "or a host of an Egress"},
            {kHost + "hosts: []", "spec.hosts", "no such field"},
            {kHost + "connectionSettings: {tcp: {maxConnections: -1}}",
             "spec.connectionSettings.tcp.maxConnections", "from 0 to"},
            {kHost + "connectionSettings: {tcp: {connectTimeout: 5}}",
             "spec.connectionSettings.tcp.connectTimeout", "must be a string"},
            {kHost + "connectionSettings: {tcp: {connectTimeout: 0s}}",
             "spec.connectionSettings.tcp.connectTimeout", "from 1ms to 1h"},
            {kHost + "connectionSettings: {tcp: {idleTimeout: 721h}}",
             "spec.connectionSettings.tcp.idleTimeout", "0s for none"},
            {kHost + "connectionSettings: {http: {streamIdleTimeout: -1s}}",
             "spec.connectionSettings.http.streamIdleTimeout", "0s for none"},
            {kHost + "connectionSettings: {tcp: {idleTimeout: 500us}}",
             "spec.connectionSettings.tcp.idleTimeout", "from 1ms to 720h"},
            {kHost + "connectionSettings: {http: {streamIdleTimeout: 0.9ms}}",
             "spec.connectionSettings.http.streamIdleTimeout", "from 1ms to 720h"},
            {kHost + "connectionSettings: {outlierDetection: {consecutive5xx: 0}}",
             "spec.connectionSettings.outlierDetection.consecutive5xx", "from 1 to"},
            {kHost + "connectionSettings: {outlierDetection: {interval: 0s}}",
             "spec.connectionSettings.outlierDetection.interval", "from 1ms to 1h"},
            {kHost + "connectionSettings: {outlierDetection: {baseEjectionTime: 2h}}",
             "spec.connectionSettings.outlierDetection.baseEjectionTime", "from 1ms to 1h"},
            {kHost + "connectionSettings: {outlierDetection: {maxEjectionPercent: 101}}",
             "spec.connectionSettings.outlierDetection.maxEjectionPercent", "from 0 to 100"},
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
            {http_limit(", responseHeadersToAdd: [{name: Host, value: a}]"),
             http + "responseHeadersToAdd[0].name", "must not be host"},
            {http_limit(", responseHeadersToAdd: [{name: ':path', value: a}]"),
             http + "responseHeadersToAdd[0].name", "not an HTTP header name"},
            {http_limit(", responseHeadersToAdd: [{name: a, value: '%NOPE%'}]"),
             http + "responseHeadersToAdd[0].value", "must not have a '%'"},
            {http_limit(headers(1, std::string(1025, 'n'), "a")),
             http + "responseHeadersToAdd[0].name", "at most 1024 bytes", ErrorCode::kTooLarge},
            {http_limit(headers(1, "a", std::string(1025, 'v'))),
             http + "responseHeadersToAdd[0].value", "at most 1024 bytes", ErrorCode::kTooLarge},
            {http_limit(headers(11, "a", "b")), http + "responseHeadersToAdd",
             "has 11 headers, at most 10", ErrorCode::kTooLarge},
            {kHost + "httpRoutes: [{path: /, rateLimit: {local: {requests: 1, unit: hour" +
                 headers(11, "a", "b") + "}}}]",
             "spec.httpRoutes[0].rateLimit.local.responseHeadersToAdd", "at most 10",
             ErrorCode::kTooLarge},
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
        by_default(decode_upstream_traffic_setting), kPolicyApi, kind(),
        {
            {kHost + "connectionSettings: {x: 1}", "spec.connectionSettings.x", x},
            {kHost + "connectionSettings: {tcp: {x: 1}}", "spec.connectionSettings.tcp.x", x},
            {kHost + "connectionSettings: {http: {x: 1}}", "spec.connectionSettings.http.x", x},
            {kHost + "connectionSettings: {outlierDetection: {x: 1}}",
             "spec.connectionSettings.outlierDetection.x", x},
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
