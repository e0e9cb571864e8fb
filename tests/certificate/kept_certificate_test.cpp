// A kept certificate is always the newest of its subject.
#include "osm/certificate/kept_certificate.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "certificate/manager_fixture.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using std::chrono::hours;

const Subject kOld = webhook_subject(TrustDomain("old.example"), "osm-injector", "osm-system");
const Subject kNew = webhook_subject(TrustDomain("new.example"), "osm-injector", "osm-system");

struct Fixture : certificate::testing::ManagerFixture {
  std::unique_ptr<KeptCertificate> kept = KeptCertificate::issue(*manager, kOld).value();
};

}  // namespace

TEST_SUITE("certificate::KeptCertificate") {
  TEST_CASE("load() returns the newest certificate") {
    Fixture f;
    const CertificatePtr first = f.kept->load();
    const auto renewed = f.manager->rotate_certificate(kOld.common_name);
    REQUIRE(renewed.ok());
    CHECK(f.kept->load() == first);  // until it was told
    f.executor.run_until_idle();
    CHECK(f.kept->load() == *renewed);
  }

  TEST_CASE("another subject takes over, also one of the same common name, and is renewed") {
    Fixture f;
    REQUIRE(kOld.common_name == kNew.common_name);
    f.ca.while_issuing = [&] { CHECK(f.kept->load()->subject == kOld); };
    REQUIRE(f.kept->change_subject(kNew).ok());
    f.ca.while_issuing = {};
    CHECK(f.kept->load()->subject == kNew);
    REQUIRE(f.kept->change_subject(kNew).ok());
    CHECK(f.ca.total == 2);
    const CertificatePtr before = f.kept->load();
    f.executor.run_for(hours(40));
    CHECK(f.kept->load() != before);
    CHECK(f.valid(*f.kept->load()));
    CHECK(f.manager->list_certificates().size() == 1);
  }

  TEST_CASE("two values of one subject keep it until both are gone") {
    Fixture f;
    auto other = KeptCertificate::issue(*f.manager, kOld).value();
    CHECK(other->load() == f.kept->load());
    f.kept.reset();
    f.executor.run_for(hours(60));
    CHECK(f.valid(*other->load()));
    other.reset();
    CHECK(f.manager->list_certificates().empty());
  }

  TEST_CASE("if the new certificate cannot be issued, the old one is shown and the call fails") {
    Fixture f;
    f.ca.failure = Error{ErrorCode::kUnavailable, "CA unreachable"};
    CHECK_FALSE(f.kept->change_subject(kNew).ok());
    CHECK(f.kept->load()->subject == kOld);
    f.ca.failure.reset();
    SUBCASE("the other") {
      REQUIRE(f.kept->change_subject(kNew).ok());
      CHECK(f.kept->load()->subject == kNew);
    }
    SUBCASE("or back") {
      REQUIRE(f.kept->change_subject(kOld).ok());
      CHECK(f.kept->load()->subject == kOld);
      f.executor.run_for(hours(100));
      CHECK(f.valid(*f.kept->load()));
    }
  }
}
