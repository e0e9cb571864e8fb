// Limits that a rate-limit server counts are read, and their faults refused with fields.
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

const std::string kKind{kinds::kUpstreamTrafficSetting.kind};
const std::string kHttp = "spec.rateLimit.global.http";
const std::string kTcp = "spec.rateLimit.global.tcp";
const std::string kServer = "rateLimitService: {host: limiter, port: 8081}, domain: shop";

DecodedPolicy decoded(const std::string& spec) {
  return decode_upstream_traffic_setting(object_of(kPolicyApi, kKind, "host: api.shop\n" + spec));
}

UpstreamLimits limits_of(const std::string& spec) {
  const DecodedPolicy setting = decoded(spec);
  CHECK(setting.problems.empty());
  REQUIRE(setting.value);
  return setting.value->get<UpstreamTrafficSetting>()->limits;
}

std::string http(const std::string& more) {
  return "host: api.shop\nrateLimit: {global: {http: {" + kServer + more + "}}}";
}
std::string entry(const std::string& text) {
  return http(", descriptors: [{entries: [" + text + "]}]");
}
std::string header(const std::string& condition) {
  return entry("{headerValueMatch: {value: a, headers: [" + condition + "]}}");
}
std::string tcp(const std::string& members) {
  return "host: api.shop\nrateLimit: {global: {tcp: {" + members + "}}}";
}

}  // namespace

TEST_SUITE("spec.global_limit") {
  TEST_CASE("the server of a limit is read, and has OSM's defaults") {
    const auto usual = limits_of("rateLimit: {global: {http: {" + kServer + "}}}");
    REQUIRE(usual.global_http);
    CHECK(*usual.global_http ==
          HttpGlobalRateLimit{{"limiter", Port{8081}, "shop", 20ms, true}, false, 429});
    CHECK_FALSE(usual.global_tcp);
    const auto all = limits_of(R"(rateLimit:
  global:
    http:
      rateLimitService: {host: 192.0.2.1, port: 1}
      domain: a b
      timeout: 1m
      failOpen: false
      enableXRateLimitHeaders: true
      responseStatusCode: 503
    tcp:
      rateLimitService: {host: limiter.example, port: 65535}
      domain: tcp
      timeout: 1s
      failOpen: false
      descriptors:
      - entries: [{key: a, value: b}, {key: c, value: d}]
      - entries: [{key: e, value: f}])");
    CHECK(*all.global_http ==
          HttpGlobalRateLimit{{"192.0.2.1", Port{1}, "a b", 60s, false}, true, 503});
    REQUIRE(all.global_tcp);
    CHECK(*all.global_tcp == TcpGlobalRateLimit{{"limiter.example", Port{65535}, "tcp", 1s, false},
                                                {{{"a", "b"}, {"c", "d"}}, {{"e", "f"}}}});
  }

  TEST_CASE("descriptors of requests are read, for the Service and for a path") {
    using Kind = RateLimitEntry::Kind;
    using Header = HeaderCondition::Kind;
    const auto limits = limits_of("rateLimit: {global: {http: {" + kServer + R"(, descriptors: [
  {entries: [{genericKey: {value: all}}, {remoteAddress: {}}]},
  {entries: [{genericKey: {value: v, key: k}}, {requestHeader: {name: x-user, key: user}}]}]}}}
httpRoutes:
- path: /lane
  rateLimit:
    global:
      descriptors:
      - entries:
        - headerValueMatch:
            value: v
            key: k
            expectMatch: false
            headers:
            - {name: a, exact: b}
            - {name: a, prefix: b}
            - {name: a, suffix: b}
            - {name: a, contains: b}
            - {name: a, regex: b.*}
            - {name: a, present: true}
            - {name: a, present: false}
- path: /other
  rateLimit: {global: {descriptors: []}})");
    CHECK(limits.descriptors ==
          std::vector<RateLimitDescriptor>{
              {{Kind::kGenericKey, "", "all", "", {}}, {Kind::kRemoteAddress, "", "", "", {}}},
              {{Kind::kGenericKey, "k", "v", "", {}},
               {Kind::kRequestHeader, "user", "", "x-user", {}}}});
    REQUIRE(limits.paths.size() == 1);
    CHECK(limits.paths[0].path_regex == "/lane");
    CHECK_FALSE(limits.paths[0].limit);
    CHECK(limits.paths[0].descriptors ==
          std::vector<RateLimitDescriptor>{{{Kind::kHeaderValueMatch,
                                             "k",
                                             "v",
                                             "",
                                             {{"a", Header::kExact, "b"},
                                              {"a", Header::kPrefix, "b"},
                                              {"a", Header::kSuffix, "b"},
                                              {"a", Header::kContains, "b"},
                                              {"a", Header::kRegex, "b.*"},
                                              {"a", Header::kPresent, ""},
                                              {"a", Header::kAbsent, ""}},
                                             false}}});
  }

  TEST_CASE("a path's descriptors without a server have no effect, and that is said") {
    const DecodedPolicy setting = decoded(
        "httpRoutes: [{path: /, rateLimit: {global: {descriptors: "
        "[{entries: [{remoteAddress: {}}]}]}}}]");
    REQUIRE(setting.value);
    REQUIRE(setting.problems.size() == 1);
    CHECK(setting.problems[0].field == "spec.httpRoutes[0].rateLimit.global");
    CHECK(setting.problems[0].code == ErrorCode::kUnusedField);
  }

  TEST_CASE("faults of a global limit are refused with their fields") {
    const std::string first = kHttp + ".descriptors[0].entries[0]";
    const std::string match = first + ".headerValueMatch";
    check_refused(
        by_default(decode_upstream_traffic_setting), kPolicyApi, kKind,
        {
            {"host: api.shop\nrateLimit: {global: {http: {domain: a}}}",
             kHttp + ".rateLimitService", "required"},
            {"host: api.shop\nrateLimit: {global: {http: {rateLimitService: {port: 1}, domain: "
             "a}}}",
             kHttp + ".rateLimitService.host", "required"},
            {"host: api.shop\nrateLimit: {global: {http: {rateLimitService: {host: 'http://a', "
             "port: "
             "1}, domain: a}}}",
             kHttp + ".rateLimitService.host", "without scheme and port"},
            {"host: api.shop\nrateLimit: {global: {http: {rateLimitService: {host: a}, domain: "
             "a}}}",
             kHttp + ".rateLimitService.port", "must be a port number"},
            {"host: api.shop\nrateLimit: {global: {http: {rateLimitService: {host: a, port: 1}}}}",
             kHttp + ".domain", "required"},
            {http(", timeout: 0s"), kHttp + ".timeout", "from 1ms to 1m"},
            {http(", failOpen: yes please"), kHttp + ".failOpen", "must be true or false"},
            {http(", responseStatusCode: 399"), kHttp + ".responseStatusCode", "from 400 to 599"},
            {http(", responseStatusCode: 418"), kHttp + ".responseStatusCode", "no status code"},
            {http(", x: 1"), kHttp + ".x", "no such field"},
            {http(", descriptors: [{}]"), kHttp + ".descriptors[0].entries", "required"},
            {http(", descriptors: [{entries: []}]"), kHttp + ".descriptors[0].entries",
             "must have an entry"},
            {entry("{}"), first, "exactly one of"},
            {entry("{remoteAddress: {}, genericKey: {value: a}}"), first, "exactly one of"},
            {entry("{remoteAddress: {x: 1}}"), first + ".remoteAddress", "must be {}"},
            {entry("{genericKey: {key: a}}"), first + ".genericKey.value", "required"},
            {entry("{genericKey: {value: '%REQ(a)%'}}"), first + ".genericKey.value", "'%'"},
            {entry("{requestHeader: {name: a}}"), first + ".requestHeader.key", "required"},
            {entry("{requestHeader: {key: a}}"), first + ".requestHeader.name", "required"},
            {entry("{requestHeader: {key: a, name: 'a b'}}"), first + ".requestHeader.name",
             "not an HTTP header name"},
            {entry("{headerValueMatch: {value: a}}"), match + ".headers", "required"},
            {entry("{headerValueMatch: {value: a, headers: []}}"), match + ".headers",
             "must have a header"},
            {header("{exact: a}"), match + ".headers[0].name", "required"},
            {header("{name: a}"), match + ".headers[0]", "exactly one of"},
            {header("{name: a, exact: b, prefix: c}"), match + ".headers[0]", "exactly one of"},
            {header("{name: a, exact: ''}"), match + ".headers[0].exact", "must not be empty"},
            {header("{name: a, regex: '('}"), match + ".headers[0].regex", "not an RE2 regex",
             ErrorCode::kInvalidRegex},
            {tcp(kServer), kTcp + ".descriptors", "required"},
            {tcp(kServer + ", descriptors: []"), kTcp + ".descriptors", "must have a descriptor"},
            {tcp(kServer + ", descriptors: [{entries: [{key: a}]}]"),
             kTcp + ".descriptors[0].entries[0].value", "required"},
            {tcp(kServer + ", descriptors: [{entries: [{value: a}]}]"),
             kTcp + ".descriptors[0].entries[0].key", "required"},
            {tcp(kServer + ", descriptors: [{entries: [{key: a, value: b, x: 1}]}]"),
             kTcp + ".descriptors[0].entries[0].x", "no such field"},
            {http("") + "\nhttpRoutes: [{path: /, rateLimit: {global: {}}}]",
             "spec.httpRoutes[0].rateLimit.global.descriptors", "required"},
            {http("") +
                 "\nhttpRoutes: [{path: /, rateLimit: {global: {descriptors: [], domain: a}}}]",
             "spec.httpRoutes[0].rateLimit.global.domain", "no such field"},
        });
  }
}
