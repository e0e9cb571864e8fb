// The webhook keeps MeshRootCertificates in a state that a rotation can handle.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "inject/reviews.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

using Fixture = ValidatorFixture;
using Fields = std::vector<std::string>;

constexpr const char* kTresor =
    R"({"tresor": {"ca": {"secretRef": {"name": "ca", "namespace": "osm-system"}}}})";
constexpr const char* kIssuer = R"({"certManager": {"issuerName": "ca"}})";

Written root(const std::string& name, const std::string& role,
             const std::string& provider = kTresor, const std::string& domain = "cluster.local") {
  return {kConfigApi, "MeshRootCertificate",
          R"({"role": ")" + role + R"(", "trustDomain": ")" + domain + R"(", "provider": )" +
              provider + "}",
          name, "osm-system"};
}

MeshRootCertificate declared(const std::string& name, RootRole role) {
  return {.name = name, .role = role, .provider = TresorProvider{"ca", "osm-system"}};
}

}  // namespace

TEST_SUITE("inject::Validator of MeshRootCertificates") {
  TEST_CASE_FIXTURE(Fixture, "a good one is allowed, and a bad one refused with its fields") {
    CHECK(create(root("first", "active")).allowed);
    CHECK(create(root("first", "passive", kIssuer)).allowed);
    CHECK(create(root("first", "signing")).fields == Fields{"spec.role"});
    CHECK(create(root("first", "active", "{}")).fields == Fields{"spec.provider"});
    CHECK(create(root("first", "active", kTresor, "")).fields == Fields{"spec.trustDomain"});
    CHECK(create(root("first", "active", R"({"certManager": {}})")).fields ==
          Fields{"spec.provider.certManager.issuerName"});
  }

  TEST_CASE_FIXTURE(Fixture, "its provider and trust domain stay what they are") {
    spec.put(declared("first", RootRole::kActive));
    const Written before = root("first", "active");
    CHECK(update(before, root("first", "active", kIssuer)).fields == Fields{"spec.provider"});
    CHECK(update(before, root("first", "active", kTresor, "other.local")).fields ==
          Fields{"spec.trustDomain"});
    CHECK(update(before, root("first", "active", kIssuer, "other.local")).fields ==
          Fields{"spec.trustDomain", "spec.provider"});
    Written described = before;  // its defaults, written out
    described.spec.insert(1, R"("spiffeEnabled": true, )");
    CHECK(update(before, described).allowed);
    // An invalid object may be repaired.
    CHECK(update(root("first", "active", "{}"), before).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "a second active one begins a rotation; a third in use is refused") {
    spec.put(declared("first", RootRole::kActive));
    CHECK(create(root("second", "active")).allowed);
    CHECK(create(root("second", "passive")).allowed);
    spec.put(declared("second", RootRole::kActive));
    for (const char* role : {"active", "passive"}) {
      CAPTURE(role);
      const Verdict third = create(root("third", role));
      CHECK(third.fields == Fields{"spec.role"});
      CHECK(third.message.find("make one of these inactive first: first, second") !=
            std::string::npos);
      CHECK(update(root("third", "inactive"), root("third", role)).fields == Fields{"spec.role"});
    }
    CHECK(create(root("third", "inactive")).allowed);
    spec.put(declared("second", RootRole::kInactive));
    CHECK(create(root("third", "active")).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "with three roots in use, one may change its role") {
    for (const char* name : {"first", "second", "third"})
      spec.put(declared(name, RootRole::kActive));
    CHECK(update(root("third", "active"), root("third", "passive")).allowed);
    CHECK(update(root("third", "active"), root("third", "inactive")).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "the only active one stays active, and stays") {
    spec.put(declared("first", RootRole::kActive));
    spec.put(declared("next", RootRole::kPassive));
    const Written first = root("first", "active");
    for (const char* role : {"passive", "inactive"}) {
      CAPTURE(role);
      const Verdict verdict = update(first, root("first", role));
      CHECK(verdict.fields == Fields{"spec.role"});
      CHECK(verdict.message.find("declare the next one active first") != std::string::npos);
    }
    const Verdict removed = remove(first);
    CHECK_FALSE(removed.allowed);
    CHECK(removed.fields == Fields{""});
    CHECK(removed.message.find("MeshRootCertificate osm-system/first is refused: is the only") ==
          0);
    CHECK(remove(root("next", "passive")).allowed);

    spec.put(declared("next", RootRole::kActive));
    CHECK(remove(first).allowed);
    CHECK(update(first, root("first", "inactive")).allowed);
    CHECK(update(first, root("first", "passive")).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "an inactive one may become active again") {
    spec.put(declared("first", RootRole::kActive));
    spec.put(declared("old", RootRole::kInactive));
    CHECK(update(root("old", "inactive"), root("old", "active")).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "an update without a change of the spec is never refused") {
    for (const char* name : {"first", "second", "third"})
      spec.put(declared(name, RootRole::kActive));
    CHECK(update(root("first", "active"), root("first", "active")).allowed);
    CHECK(update(root("first", "x"), root("first", "x")).allowed);
  }

  TEST_CASE_FIXTURE(Fixture, "elsewhere one has no effect, which is said, and may come and go") {
    spec.put(declared("first", RootRole::kActive));
    spec.put(declared("second", RootRole::kActive));
    Written stray = root("first", "active");
    stray.ns = "shop";
    const Verdict verdict = create(stray);
    CHECK(verdict.allowed);
    REQUIRE(verdict.warnings.size() == 1);
    CHECK(verdict.warnings[0].find("declared in namespace osm-system") != std::string::npos);
    spec.remove({kinds::kMeshRootCertificate, "osm-system", "second"});
    CHECK(remove(stray).allowed);
  }
}
