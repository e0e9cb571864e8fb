// Certificates stay valid through a simulated week with outages and calendar jumps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "certificate/manager_fixture.hpp"
#include "lib/run.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using certificate::testing::ManagerFixture;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Every certificate is really made.
const int kIdentities = osm::testing::steps(100, 1'000);
const int kMany = osm::testing::steps(1'000, 10'000);
constexpr int kFew = 200;

// Most renewals that chance explains in one minute when `count` certificates renew at random over a
// sixth of nine tenths of 48 h and more: six deviations above the mean.
double most_by_chance(int count) {
  const double mean = count / 432.0;
  return mean + 6 * std::sqrt(mean) + 6;
}

void issue_within_a_minute(ManagerFixture& f, int count) {
  for (int i = 0; i < count; ++i) {
    f.issue("w" + std::to_string(i));
    if (i % (count / 60 + 1) == 0) f.executor.run_for(seconds(1));
  }
}

// The shortest time any certificate has left, negative or `hours::min()` when one is invalid.
std::chrono::nanoseconds margin(const ManagerFixture& f) {
  std::chrono::nanoseconds least = hours(1'000);
  for (const auto& each : f.manager->list_certificates()) {
    if (!f.valid(*each)) return hours(-1'000);
    least = std::min(least, each->not_after - f.clock.wall_now());
  }
  return least;
}

}  // namespace

TEST_SUITE("certificate::Manager over a week") {
  TEST_CASE("certificates issued in one minute do not renew in one minute") {
    ManagerFixture f;
    issue_within_a_minute(f, kMany);
    int most_in_a_minute = 0;
    for (int minute = 0; minute < 33 * 60; ++minute) {  // all renew once, at 21 to 32 h
      const int before = f.ca.total;
      f.executor.run_for(minutes(1));
      most_in_a_minute = std::max(most_in_a_minute, f.ca.total - before);
    }
    MESSAGE("most renewals in a minute: " << most_in_a_minute);
    CHECK(f.ca.total == 2 * kMany);
    CHECK(most_in_a_minute < most_by_chance(kMany));
  }

  TEST_CASE("certificates issued in one minute stay valid for a week, renewed all the time") {
    ManagerFixture f;
    issue_within_a_minute(f, kIdentities);
    int most_in_a_minute = 0;
    std::chrono::nanoseconds least = hours(48);
    for (int minute = 0; minute < 7 * 24 * 60; ++minute) {
      const int before = f.ca.total;
      f.executor.run_for(minutes(1));
      most_in_a_minute = std::max(most_in_a_minute, f.ca.total - before);
      least = std::min<std::chrono::nanoseconds>(
          least, seconds(static_cast<int>(f.metrics.value("osm_cert_expiry_seconds"))));
      if (minute % (12 * 60) == 0) CHECK(margin(f) > hours(14));
    }
    MESSAGE("most renewals in a minute: " << most_in_a_minute << ", issued: " << f.ca.total);
    CHECK(std::ssize(f.manager->list_certificates()) == kIdentities);
    CHECK(most_in_a_minute < most_by_chance(kIdentities));
    CHECK(least > hours(14));  // a third of nine tenths of 48 h
    // Renewed at 1/2 to 2/3 of 43 to 48 h: between five and eight times in 168 h.
    CHECK(f.ca.total >= kIdentities * 6);
    CHECK(f.ca.total <= kIdentities * 9);
    CHECK(f.metrics.value("osm_cert_rotated_count") == f.ca.total - kIdentities);
    CHECK(f.metrics.value("osm_cert_expiry_seconds") > 13 * 3600);
    CHECK(f.log.count("calendar jumped") == 0);

    for (const auto& each : f.manager->list_certificates())
      f.manager->release_certificate(each->subject.common_name);
    const int total = f.ca.total;
    f.executor.run_for(hours(72));
    CHECK(f.ca.total == total);
    CHECK(f.manager->list_certificates().empty());
    CHECK(f.executor.timers() == 1);
  }

  TEST_CASE("a calendar set three days ahead makes everything new within a minute") {
    ManagerFixture f;
    issue_within_a_minute(f, kFew);
    f.clock.set_wall(f.clock.wall_now() + hours(72));
    CHECK(margin(f) < seconds(0));
    f.executor.run_for(minutes(1));
    CHECK(f.log.count("calendar jumped") == 1);
    CHECK(margin(f) > hours(43));
    CHECK(f.ca.total == 2 * kFew);
    f.executor.run_for(hours(48));
    CHECK(margin(f) > hours(14));
  }

  TEST_CASE("a calendar set one day back renews only certificates that are not valid yet") {
    ManagerFixture f;
    issue_within_a_minute(f, kFew / 2);
    f.executor.run_for(hours(20));
    for (int i = 0; i < kFew / 2; ++i) f.issue("late" + std::to_string(i));
    CHECK(f.ca.total == kFew);
    f.clock.set_wall(f.clock.wall_now() - hours(24));
    f.executor.run_for(minutes(1));
    CHECK(f.ca.total == 2 * kFew);  // the first half began 20 h ago: not valid yet either
    CHECK(margin(f) > hours(43));
    f.clock.set_wall(f.clock.wall_now() -
                     minutes(5));  // less than a fresh certificate's head start
    f.executor.run_for(minutes(2));
    CHECK(f.ca.total == 2 * kFew);
    CHECK(margin(f) > hours(43));
    f.executor.run_for(hours(24 * 3));
    CHECK(margin(f) > hours(14));
  }

  TEST_CASE("a host that sleeps through its renewals spreads them instead of doing all at once") {
    ManagerFixture f;
    issue_within_a_minute(f, kFew);
    f.clock.set_wall(f.clock.wall_now() + hours(35));  // all are due, none has expired
    int most_in_a_minute = 0;
    for (int minute = 0; minute < 6 * 60; ++minute) {
      const int before = f.ca.total;
      f.executor.run_for(minutes(1));
      most_in_a_minute = std::max(most_in_a_minute, f.ca.total - before);
      if (minute % 10 == 0) CHECK(margin(f) > hours(5));
    }
    CHECK(f.ca.total == 2 * kFew);
    CHECK(most_in_a_minute < 30);  // over two hours and more
  }

  TEST_CASE("an executor that was stuck for days is the same as a host that slept") {
    ManagerFixture f;
    issue_within_a_minute(f, 100);
    f.clock.advance(hours(72));
    f.executor.run_until_idle();
    CHECK(f.ca.total == 200);
    CHECK(margin(f) > hours(43));
  }

  TEST_CASE("a slow CA is not taken for a jump of the calendar") {
    ManagerFixture f;
    issue_within_a_minute(f, 20);
    f.ca.while_issuing = [&] { f.clock.advance(minutes(5)); };
    f.executor.run_for(hours(40));
    CHECK(f.ca.total >= 40);
    CHECK(f.log.count("calendar jumped") == 0);
    CHECK(margin(f) > hours(10));
  }

  TEST_CASE("a CA about to end is not asked without pause") {
    ManagerFixture f;
    f.ca.end = f.clock.wall_now() + hours(1);
    issue_within_a_minute(f, 10);
    f.executor.run_for(minutes(59));
    CHECK(f.ca.total < 10 * 20);
    CHECK(margin(f) > seconds(0));
  }
}
