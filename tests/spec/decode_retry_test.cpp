// A Retry is read; a bad destination is left out alone.
#include <doctest/doctest.h>

#include <chrono>

#include "model/links.hpp"
#include "osm/values/retry.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;
using namespace std::chrono_literals;

namespace {

// A Retry whose spec has `was` replaced by `is`.
DecodedPolicy retry_with(const std::string& was, const std::string& is) {
  std::string spec =
      "source: {kind: ServiceAccount, name: web, namespace: shop}\n"
      "destinations: [{kind: Service, name: api, namespace: shop}, "
      "{kind: Service, name: stock, namespace: store}]\n"
      "retryPolicy: {retryOn: '5xx,reset', perTryTimeout: 1s, numRetries: 5, "
      "retryBackoffBaseInterval: 25ms}";
  const auto at = spec.find(was);
  REQUIRE(at != std::string::npos);
  return decode_retry(
      object_of("policy.openservicemesh.io/v1alpha1", "Retry", spec.replace(at, was.size(), is)));
}

struct Refused {
  const char* was;
  const char* is;
  const char* field;
  const char* cause;
  ErrorCode code = kField;
};

}  // namespace

TEST_SUITE("spec.retry") {
  TEST_CASE("a Retry is read, and reaches the proxies of its source") {
    const DecodedPolicy decoded = retry_with("numRetries: 5", "numRetries: 0");
    CHECK(decoded.problems.empty());
    REQUIRE(decoded.value);
    const Retry& retry = *decoded.value->get<Retry>();
    CHECK(retry.source == ServiceIdentity{"shop", "web"});
    CHECK(retry.destinations == std::vector<ServiceName>{{"shop", "api"}, {"store", "stock"}});
    CHECK(retry.policy == RetryPolicy{"5xx,reset", 0, 1s, 25ms});
    CHECK(model::links_of(*decoded.value).entries ==
          std::vector<model::EntryKey>{ServiceIdentity{"shop", "web"}});
  }

  TEST_CASE("faults of a Retry are refused with their fields") {
    const std::vector<Refused> rows{
        {"kind: ServiceAccount", "kind: Service", "spec.source.kind", "must be ServiceAccount"},
        {"name: web", "name: ''", "spec.source.name", "must not be empty"},
        {"name: web, namespace: shop", "name: web, namespace: store", "spec.source.namespace",
         "must be the Retry's own namespace, shop", ErrorCode::kCrossNamespace},
        {"destinations: [", "targets: [", "spec.targets", "no such field"},
        {"retryPolicy:", "policy: {}\nretryPolicy:", "spec.policy", "no such field"},
        {"retryOn: '5xx,reset', ", "", "spec.retryPolicy.retryOn", "required"},
        {"5xx,reset", "5xx, reset", "spec.retryPolicy.retryOn", "\" reset\""},
        {"5xx,reset", "5xx,500", "spec.retryPolicy.retryOn", "\"500\""},
        {"5xx,reset", ",5xx", "spec.retryPolicy.retryOn", "\"\", which is no"},
        {"perTryTimeout: 1s, ", "", "spec.retryPolicy.perTryTimeout", "required"},
        {"Timeout: 1s", "Timeout: 1", "spec.retryPolicy.perTryTimeout", "must be a string"},
        {"Timeout: 1s", "Timeout: 0s", "spec.retryPolicy.perTryTimeout", "from 1ms to 1h"},
        {"Timeout: 1s", "Timeout: 999us", "spec.retryPolicy.perTryTimeout", "from 1ms to 1h"},
        {"Timeout: 1s", "Timeout: 61m", "spec.retryPolicy.perTryTimeout", "from 1ms to 1h"},
        {"numRetries: 5, ", "", "spec.retryPolicy.numRetries", "required"},
        {"numRetries: 5", "numRetries: -1", "spec.retryPolicy.numRetries", "from 0 to 1024"},
        {"25ms", "25 ms", "spec.retryPolicy.retryBackoffBaseInterval", "must be a duration"},
        {"numRetries: 5", "numRetries: 5, retries: 5", "spec.retryPolicy.retries", "no such field"},
    };
    for (const Refused& row : rows) {
      CAPTURE(row.was);
      CAPTURE(row.is);
      const auto decoded = retry_with(row.was, row.is);
      CHECK_FALSE(decoded.value);
      REQUIRE_FALSE(decoded.problems.empty());
      CAPTURE(decoded.problems[0].text());
      CHECK(decoded.problems[0].code == row.code);
      CHECK(decoded.problems[0].field == row.field);
      CHECK(decoded.problems[0].cause.find(row.cause) != std::string::npos);
    }
  }

  TEST_CASE("an invalid destination is left out alone") {
    for (const auto& [was, is, field] :
         std::vector<std::tuple<const char*, const char*, const char*>>{
             {"{kind: Service, name: api", "{kind: Group, name: api", "spec.destinations[0].kind"},
             {"name: api, ", "", "spec.destinations[0].name"},
             {"name: api, namespace: shop", "name: api", "spec.destinations[0].namespace"},
             {"name: api,", "x: 1, name: api,", "spec.destinations[0].x"}}) {
      const auto decoded = retry_with(was, is);
      REQUIRE(decoded.value);
      CHECK(decoded.value->get<Retry>()->destinations ==
            std::vector<ServiceName>{{"store", "stock"}});
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == field);
      CHECK(decoded.problems[0].cause.find("only this destination is left out") !=
            std::string::npos);
    }
  }
}
