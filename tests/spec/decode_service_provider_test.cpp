// A ServiceProvider is read; one fault leaves the whole order out.
#include <doctest/doctest.h>

#include "model/links.hpp"
#include "osm/values/service_provider.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

DecodedPolicy order_of(const std::string& spec) {
  return decode_service_provider(
      object_of("workload.openservicemesh.io/v1alpha1", "ServiceProvider", spec));
}

struct Refused {
  const char* spec;
  const char* field;
  const char* cause;
};

}  // namespace

TEST_SUITE("spec.service_provider") {
  TEST_CASE("a ServiceProvider is read, and reaches the proxies of its Service") {
    const DecodedPolicy decoded = order_of(
        "service: api\nproviders: [{name: kubernetes-east}, {name: vm, weight: 0}]\nothers: "
        "Exclude");
    CHECK(decoded.problems.empty());
    REQUIRE(decoded.value);
    const auto& order = *decoded.value->get<ServiceProvider>();
    const ServiceName api{decoded.value->key.ns, "api"};
    CHECK(order == ServiceProvider{.service = api,
                                   .providers = {{"kubernetes-east", {}}, {"vm", 0}},
                                   .excludes_others = true});
    CHECK(model::links_of(*decoded.value).entries == std::vector<model::EntryKey>{api});
  }

  TEST_CASE("other providers follow unless they are excluded") {
    for (const char* others : {"", "\nothers: Append"}) {
      const auto decoded = order_of(std::string("service: api\nproviders: [{name: vm}]") + others);
      REQUIRE(decoded.value);
      CHECK_FALSE(decoded.value->get<ServiceProvider>()->excludes_others);
    }
  }

  TEST_CASE("one fault leaves the whole order out") {
    for (const Refused& row : std::vector<Refused>{
             {"providers: [{name: vm}]", "spec.service", "required"},
             {"service: Api\nproviders: [{name: vm}]", "spec.service", "must be a DNS label"},
             {"service: api", "spec.providers", "required"},
             {"service: api\nproviders: []", "spec.providers", "must name at least one"},
             {"service: api\nproviders: [{name: vm}, {weight: 1}]", "spec.providers[1].name",
              "required"},
             {"service: api\nproviders: [{name: vm}, {name: vm}]", "spec.providers[1].name",
              "names vm a second time"},
             {"service: api\nproviders: [{name: vm, weight: -1}]", "spec.providers[0].weight",
              "must be"},
             {"service: api\nproviders: [{name: vm, weight: 1000001}]", "spec.providers[0].weight",
              "must be"},
             {"service: api\nproviders: [{name: vm}]\nothers: Drop", "spec.others", "must be"}}) {
      INFO(row.spec);
      const DecodedPolicy decoded = order_of(row.spec);
      CHECK_FALSE(decoded.value);
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == row.field);
      CHECK(decoded.problems[0].cause.find(row.cause) != std::string::npos);
    }
  }

  TEST_CASE("a second order for a Service is a duplicate claim") {
    const DecodedPolicy decoded = order_of("service: api\nproviders: [{name: vm}]");
    REQUIRE(decoded.value);
    const ServiceName api{decoded.value->key.ns, "api"};
    CHECK(model::links_of(*decoded.value).claims ==
          std::vector<model::Claim>{
              {api, "orders the providers of Service " + api.str(), "spec.service"}});
  }
}
