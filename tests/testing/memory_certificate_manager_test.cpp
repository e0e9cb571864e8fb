// The certificate manager in memory keeps the contract of the real one.
#include "osm/testing/memory_certificate_manager.hpp"

#include <doctest/doctest.h>

#include "osm/testing/manual_clock.hpp"

using namespace osm;
using certificate::CertificatePtr;
using certificate::Subject;
using namespace std::chrono_literals;

namespace {

const Subject kBuyer{CommonName("buyer.shop"), SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer"),
                     certificate::Usage::kWorkload};

struct Fixture {
  CertificatePtr issue(const Subject& subject = kBuyer) {
    const auto issued = manager.issue_certificate(subject, 1h);
    REQUIRE_MESSAGE(issued.ok(), issued.error().text());
    return *issued;
  }

  testing::ManualClock clock;
  testing::MemoryCertificateManager manager{clock};
  std::vector<CertificatePtr> announced;
  Subscription subscription =
      manager.subscribe([this](const CertificatePtr& rotated) { announced.push_back(rotated); });
};

}  // namespace

TEST_SUITE("testing::MemoryCertificateManager") {
  TEST_CASE_FIXTURE(Fixture, "a certificate is made once, and served until it ends") {
    const CertificatePtr first = issue();
    CHECK(first->subject == kBuyer);
    CHECK(first->not_before == clock.wall_now());
    CHECK(first->not_after - first->not_before == 1h);
    CHECK(issue() == first);
    CHECK(manager.issued() == 1);
    CHECK(announced.empty());
    clock.advance(1h);
    const CertificatePtr next = issue();
    CHECK(next->fingerprint != first->fingerprint);
    CHECK(announced == std::vector{next});
  }

  TEST_CASE_FIXTURE(Fixture, "rotating replaces key and certificate and tells subscribers") {
    const CertificatePtr first = issue();
    const auto rotated = manager.rotate_certificate(kBuyer.common_name);
    REQUIRE(rotated.ok());
    CHECK((*rotated)->private_key.pem() != first->private_key.pem());
    CHECK((*rotated)->chain_pem != first->chain_pem);
    CHECK(announced == std::vector{*rotated});
    CHECK(manager.list_certificates() == std::vector{*rotated});
    CHECK(manager.rotate_certificate(CommonName("nobody")).error().code == ErrorCode::kNotFound);
  }

  TEST_CASE_FIXTURE(Fixture, "a common name is held by one subject until it is released") {
    issue();
    Subject other = kBuyer;
    other.spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/thief");
    CHECK(manager.issue_certificate(other, 1h).error().code == ErrorCode::kInvalidArgument);
    manager.release_certificate(kBuyer.common_name);
    CHECK(manager.list_certificates().empty());
    CHECK(issue(other)->subject == other);
  }

  TEST_CASE_FIXTURE(Fixture, "while it is told to fail, only what is cached is served") {
    const CertificatePtr first = issue();
    manager.set_failure(Error{ErrorCode::kUnavailable, "the CA is down"});
    CHECK(issue() == first);
    CHECK(manager.rotate_certificate(kBuyer.common_name).error().code == ErrorCode::kUnavailable);
    CHECK(manager.list_certificates() == std::vector{first});
    CHECK(announced.empty());
    manager.set_failure({});
    CHECK(manager.rotate_certificate(kBuyer.common_name).ok());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "new roots and another CA are announced once, certificates unchanged") {
    const CertificatePtr first = issue();
    int changes = 0;
    const Subscription changed = manager.subscribe_ca([&] { ++changes; });
    manager.set_trust_bundle_pem("other roots");
    CHECK(changes == 1);
    CHECK(manager.trust_bundle_pem() == "other roots");
    manager.set_trust_bundle_pem("other roots");
    CHECK(changes == 1);
    manager.set_issuer_id("other CA");
    CHECK(changes == 2);
    CHECK(issue() == first);
    CHECK(announced.empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a certificate that is to be kept is made when it can be") {
    const auto keep = [&] { return manager.keep_certificate(kBuyer, [] { return 1h; }); };
    manager.set_failure(Error{ErrorCode::kUnavailable, "the CA is down"});
    CHECK(keep().value() == nullptr);
    manager.set_failure({});
    const CertificatePtr kept = keep().value();
    REQUIRE(kept);
    CHECK(issue() == kept);
    Subject other = kBuyer;
    other.spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/thief");
    CHECK(manager.keep_certificate(other, [] { return 1h; }).error().code ==
          ErrorCode::kInvalidArgument);
  }

  TEST_CASE_FIXTURE(Fixture, "a certificate stays until each of its keepers has released it") {
    for (int i = 0; i < 2; ++i)
      REQUIRE(manager.keep_certificate(kBuyer, [] { return 1h; }).value());
    issue();
    manager.release_certificate(kBuyer.common_name);
    CHECK(manager.list_certificates().size() == 1);
    manager.release_certificate(kBuyer.common_name);
    CHECK(manager.list_certificates().empty());
  }
}
