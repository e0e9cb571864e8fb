// The CA of a MeshRootCertificate is asked when its root is needed, and a failing one again after
// 15 s.
#include "root_rotation/candidates.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "rotation_rig.hpp"

using namespace osm;
using namespace osm::root_rotation::rig;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Counts how often the CAs of objects are asked, and lets them fail.
struct Asking {
  Mesh mesh;
  testing::ManualExecutor executor{mesh.clock};
  std::optional<Error> failure = Error{ErrorCode::kUnavailable, "vault is sealed"};
  int asked = 0;
  RootRotationOptions options{
      .runtime = mesh.runtime(executor),
      .spec = mesh.spec,
      .record = mesh.record,
      .own = mesh.own,
      .rules = {.vault_hosts = {"first.example", "second.example"}},
      .open = [this](const AllowedRoot& root) -> Result<std::shared_ptr<certificate::Issuer>> {
        ++asked;
        if (failure) return *failure;
        return new_ca(mesh.clock, root.object().trust_domain);
      },
      .trust_domain = kDomain};
  root_rotation::Candidates candidates{options};

  void ask() { candidates.ask({}, kDomain); }
};

}  // namespace

TEST_SUITE("root_rotation::Candidates") {
  TEST_CASE("a CA that fails is asked once in 15 s until it answers, and then no more") {
    Asking it;
    it.mesh.wish("next", RootRole::kActive);
    it.ask();
    CHECK(it.asked == 1);
    for (const int times : {1, 2}) {
      for (int second = 1; second < 15; ++second) {
        it.mesh.clock.advance(seconds(1));
        it.ask();
        CHECK(it.asked == times);
      }
      it.mesh.clock.advance(milliseconds(999));
      it.ask();
      CHECK(it.asked == times);
      it.mesh.clock.advance(milliseconds(1));
      if (times == 2) it.failure.reset();
      it.ask();
      CHECK(it.asked == times + 1);
    }
    CHECK(it.candidates.issuer_of("next"));
    it.mesh.clock.advance(seconds(60));
    it.ask();
    CHECK(it.asked == 3);
  }

  TEST_CASE("a jump of the calendar does not ask a failing CA sooner") {
    Asking it;
    it.mesh.wish("next", RootRole::kActive);
    it.ask();
    it.mesh.clock.set_wall(it.mesh.clock.wall_now() + hours(1));
    it.ask();
    CHECK(it.asked == 1);
  }

  TEST_CASE("another provider in the object is asked at once, another role is not") {
    Asking it;
    MeshRootCertificate next{.name = "next",
                             .trust_domain = kDomain,
                             .role = RootRole::kActive,
                             .provider = VaultProvider{.host = "first.example"}};
    it.mesh.spec.put(next);
    it.ask();
    CHECK(it.asked == 1);
    next.role = RootRole::kPassive;
    it.mesh.spec.put(next);
    it.ask();
    CHECK(it.asked == 1);
    next.provider = VaultProvider{.host = "second.example"};
    it.mesh.spec.put(next);
    it.ask();
    CHECK(it.asked == 2);
    it.ask();
    CHECK(it.asked == 2);
  }

  TEST_CASE("the CA of an inactive root is not asked") {
    Asking it;
    it.mesh.wish("next", RootRole::kInactive);
    it.ask();
    CHECK(it.asked == 0);
  }
}
