// The webhook warns about policies without effect and refuses conflicts.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "inject/reviews.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

using Fields = std::vector<std::string>;

constexpr const char* kPolicyApi = "policy.openservicemesh.io/v1alpha1";
constexpr const char* kEgress =
    R"({"sources": [{"kind": "ServiceAccount", "name": "web", "namespace": "shop"}],
        "hosts": ["pay.example.com"], "ports": [{"number": 443, "protocol": "https"}]})";
constexpr const char* kBackend =
    R"({"backends": [{"name": "web", "port": {"number": 80, "protocol": "http"}},
                     {"name": "api", "port": {"number": 80, "protocol": "http"}}],
        "sources": [{"kind": "IPRange", "name": "10.0.0.0/8"}]})";
constexpr const char* kSetting = R"({"host": "api.shop.svc.cluster.local"})";

struct Fixture : ValidatorFixture {
  Fixture() {
    validator = make_validator({.mesh_spec = spec, .metrics = metrics, .store = &store});
  }

  // As it is stored.
  void keep(const Written& written) {
    const Status put = store.put_yaml(json::serialize(written.object()));
    REQUIRE_MESSAGE(put.ok(), (put.ok() ? "" : put.error().text()));
  }

  testing::MemoryObjectStore store;
};

}  // namespace

TEST_SUITE("inject::Validator of policies") {
  TEST_CASE_FIXTURE(Fixture, "good policies are admitted without a warning") {
    for (const Written& good : {Written{kPolicyApi, "IngressBackend", kBackend},
                                Written{kPolicyApi, "Egress", kEgress}}) {
      const Verdict verdict = create(good);
      CHECK_MESSAGE(verdict.allowed, verdict.message);
      CHECK(verdict.warnings.empty());
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a bad policy is refused with all its fields, without a warning") {
    const Verdict verdict = create(
        {kPolicyApi, "Egress", R"({"sources": [], "ports": [{"number": 0, "protocol": "udp"}]})"});
    CHECK_FALSE(verdict.allowed);
    CHECK(verdict.fields == Fields{"spec.ports[0].number", "spec.ports[0].protocol"});
    CHECK(verdict.warnings.empty());
    CHECK(create({kPolicyApi, "IngressBackend",
                  R"({"backends": [{"name": "a", "port": {"number": 1, "protocol": "https"}}],
                      "sources": [{"kind": "IPRange", "name": "10.0.0.0/8"}]})"})
              .fields == Fields{"spec.backends[0]"});
  }

  TEST_CASE_FIXTURE(Fixture, "a backend's port is in one IngressBackend of its namespace") {
    keep({kPolicyApi, "IngressBackend",
          R"({"backends": [{"name": "api", "port": {"number": 80, "protocol": "http"}}],
              "sources": [{"kind": "IPRange", "name": "0.0.0.0/0"}]})",
          "first"});
    const Verdict verdict = create({kPolicyApi, "IngressBackend", kBackend, "second"});
    CHECK(verdict.fields == Fields{"spec.backends[1]"});
    CHECK(verdict.message.find("IngressBackend shop/first already has backend api port 80 and is "
                               "used; merge the two") != std::string::npos);
    CHECK(create({kPolicyApi, "IngressBackend", kBackend, "first"}).allowed);
    CHECK(create({kPolicyApi, "IngressBackend", kBackend, "second", "other"}).allowed);
    store.remove({kinds::kIngressBackend, "shop", "first"});
    CHECK(create({kPolicyApi, "IngressBackend", kBackend, "second"}).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "a host has one UpstreamTrafficSetting in its namespace") {
    keep({kPolicyApi, "UpstreamTrafficSetting", kSetting, "first"});
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kSetting, "second"}).fields ==
          Fields{"spec.host"});
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", R"({"host": "web.shop.svc"})", "second"})
              .allowed);
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kSetting, "first"}).allowed);
    const char* const short_form = R"({"host": "api.shop"})";
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", short_form, "second"}).fields ==
          Fields{"spec.host"});
    // It may be about to be named by an Egress.
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kSetting, "first", "other"}).allowed);
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kSetting, "second", "other"}).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "host names are judged in the domain of the cluster") {
    constexpr const char* kHere = R"({"host": "api.shop.svc.example.internal"})";
    constexpr const char* kSplit =
        R"({"service": "api.shop.svc.example.internal", "backends": [{"service": "v1", "weight": 1}]})";
    const Written split{"split.smi-spec.io/v1alpha2", "TrafficSplit", kSplit};
    keep({kPolicyApi, "UpstreamTrafficSetting", kSetting, "first"});
    CHECK(create(split).fields == Fields{"spec.service"});
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kHere, "second"}).allowed);
    MeshConfig config;
    config.proxy.cluster_domain = "example.internal";
    spec.set_mesh_config(config);
    CHECK(create(split).allowed);
    // One Service under both names.
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kHere, "second"}).fields ==
          Fields{"spec.host"});
    spec.put(smi::TrafficSplit{{"shop", "other"}, {"shop", "api"}, {{"v1", 1}}});
    CHECK(create(split).fields == Fields{"spec.service"});
  }

  TEST_CASE_FIXTURE(Fixture, "a stored invalid policy does not block others") {
    keep({kPolicyApi, "UpstreamTrafficSetting",
          R"({"host": "api.shop.svc.cluster.local", "hosts": 7})", "broken"});
    CHECK(create({kPolicyApi, "UpstreamTrafficSetting", kSetting, "second"}).allowed);
  }
}
