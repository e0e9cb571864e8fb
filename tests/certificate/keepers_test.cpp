// A certificate is kept and renewed until the last of those that share a manager has released it.
#include <doctest/doctest.h>

#include <chrono>

#include "certificate/manager_fixture.hpp"

using namespace osm;
using namespace osm::certificate;
using namespace osm::certificate::testing;
using std::chrono::hours;

TEST_SUITE("certificate::Manager keepers") {
  TEST_CASE("a certificate stays until each of its keepers has released it") {
    ManagerFixture f;
    const CommonName name = workload("buyer").common_name;
    const auto keep = [&] {
      REQUIRE(f.manager->keep_certificate(workload("buyer"), [] { return hours(48); }).ok());
    };
    keep();
    keep();
    f.executor.run_until_idle();
    f.manager->release_certificate(name);
    f.executor.run_for(hours(60));
    CHECK(f.valid(*f.only()));
    SUBCASE("a caller that only asks for it is no keeper") {
      CHECK(f.issue("buyer"));
      CHECK(f.issue("buyer"));
    }
    SUBCASE("a caller that had it issued before counts once") {
      f.issue("store");
      f.issue("store");
      REQUIRE(f.manager->keep_certificate(workload("store"), [] { return hours(48); }).ok());
      f.manager->release_certificate(workload("store").common_name);
      CHECK(f.manager->list_certificates().size() == 2);
      f.manager->release_certificate(workload("store").common_name);
    }
    f.manager->release_certificate(name);
    CHECK(f.manager->list_certificates().empty());
    f.executor.run_for(hours(60));
    CHECK(f.executor.timers() == 1);
  }
}
