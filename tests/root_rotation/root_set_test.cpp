// A CA that has not signed for a while is reported until it signs.
#include "root_rotation/root_set.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <utility>

#include "osm/testing/manual_clock.hpp"
#include "rotation_rig.hpp"

using namespace osm;

namespace {

using root_rotation::RootSet;
using std::chrono::seconds;

struct SteeredIssuer final : certificate::Issuer {
  Result<std::string> sign(const certificate::SigningRequest&) override {
    if (failure) return *failure;
    return answer;
  }
  std::string trust_bundle_pem() const override { return bundle; }
  std::string id() const override { return "ca"; }
  WallTime not_after() const override { return WallTime::max(); }
  Status health() const override { return known; }

  std::optional<Error> failure;
  Status known;
  std::string bundle = "root";
  std::string answer = "signed";
};

struct Rig {
  Rig() {
    roots.set({.signer = ca,
               .controller_signer = ca,
               .domain = TrustDomain("cluster.local"),
               .controller_domain = TrustDomain("cluster.local"),
               .bundle_pem = "root"});
  }
  bool sign() { return roots.sign({}).ok(); }

  testing::ManualClock clock;
  std::shared_ptr<SteeredIssuer> ca = std::make_shared<SteeredIssuer>();
  RootSet roots{clock};
};

TEST_SUITE("root_rotation::RootSet") {
  TEST_CASE("a CA that has not signed for a while of failures is reported until it signs") {
    Rig rig;
    CHECK(rig.sign());
    rig.ca->failure = Error{ErrorCode::kUnavailable, "no answer"};
    CHECK_FALSE(rig.sign());
    CHECK(rig.roots.health().ok());
    rig.clock.advance(RootSet::kPatience);
    rig.ca->failure = Error{ErrorCode::kPermissionDenied, "denied"};
    CHECK_FALSE(rig.sign());
    const Status health = rig.roots.health();
    REQUIRE_FALSE(health.ok());
    CHECK(health.error() == *rig.ca->failure);
    rig.ca->failure.reset();
    CHECK(rig.sign());
    CHECK(rig.roots.health().ok());
  }

  TEST_CASE("a CA that knows that it cannot sign is reported at once") {
    Rig rig;
    rig.ca->known = Error{ErrorCode::kUnavailable, "sealed"};
    REQUIRE_FALSE(rig.roots.health().ok());
    CHECK(rig.roots.health().error() == rig.ca->known.error());
    rig.ca->failure = rig.ca->known.error();
    CHECK_FALSE(rig.sign());
    rig.ca->known = {};
    rig.clock.advance(RootSet::kPatience);
    CHECK(rig.roots.health().ok());
  }

  TEST_CASE("a CA that was exchanged for another one is reported until it is back") {
    Rig rig;
    rig.ca->bundle = root_rotation::rig::new_ca(rig.clock)->trust_bundle_pem();
    RootSet roots(rig.clock);
    roots.set({.signer = rig.ca,
               .controller_signer = rig.ca,
               .domain = TrustDomain("cluster.local"),
               .controller_domain = TrustDomain("cluster.local"),
               .bundle_pem = rig.ca->bundle});
    CHECK(roots.health().ok());
    const std::string before =
        std::exchange(rig.ca->bundle, root_rotation::rig::new_ca(rig.clock)->trust_bundle_pem());
    REQUIRE_FALSE(roots.health().ok());
    CHECK(roots.health().error().code == ErrorCode::kInvalidCertificate);
    rig.ca->bundle += before;  // it has two roots
    CHECK(roots.health().ok());
  }

  TEST_CASE("the end of what an intermediate signed is the leaf's, which comes first") {
    Rig rig;
    const std::string leaf = root_rotation::rig::new_ca(rig.clock)->trust_bundle_pem();
    rig.ca->answer = leaf;
    REQUIRE(rig.sign());
    const auto alone = rig.roots.latest_not_after();
    REQUIRE(alone.size() == 1);
    rig.clock.advance(std::chrono::hours(24));
    const std::string intermediate = root_rotation::rig::new_ca(rig.clock)->trust_bundle_pem();
    Rig chained;
    chained.ca->answer = leaf + intermediate;
    REQUIRE(chained.sign());
    CHECK(chained.roots.latest_not_after() == alone);
  }

  TEST_CASE("a request that no CA would sign says nothing about the CA") {
    Rig rig;
    rig.ca->failure = Error{ErrorCode::kInvalidArgument, "the key is too short"};
    CHECK_FALSE(rig.sign());
    rig.clock.advance(RootSet::kPatience);
    CHECK_FALSE(rig.sign());
    CHECK(rig.roots.health().ok());
  }

  TEST_CASE("a failure is forgotten when nobody has asked for long, and patience begins anew") {
    Rig rig;
    rig.ca->failure = Error{ErrorCode::kUnavailable, "no answer"};
    CHECK_FALSE(rig.sign());
    rig.clock.advance(RootSet::kPatience);
    CHECK_FALSE(rig.roots.health().ok());
    rig.clock.advance(RootSet::kForgotten);
    CHECK(rig.roots.health().ok());
    CHECK_FALSE(rig.sign());
    CHECK(rig.roots.health().ok());
    rig.clock.advance(RootSet::kPatience);
    CHECK_FALSE(rig.roots.health().ok());
  }
}

}  // namespace
