// Growth of memory, descriptors or threads after the warm-up fails a soak.
#include "soak_verdict.hpp"

#include <doctest/doctest.h>

namespace osm::bench {
namespace {

std::vector<SoakSample> minutes_of(std::size_t number, double growth_a_minute) {
  std::vector<SoakSample> minutes;
  for (std::size_t minute = 0; minute < number; ++minute)
    minutes.push_back({.resident_bytes = 60e6 + growth_a_minute * static_cast<double>(minute),
                       .allocated_bytes = 40e6,
                       .descriptors = 230,
                       .threads = 12});
  return minutes;
}

TEST_SUITE("bench::growth") {
  TEST_CASE("an hour without growth passes, however much the warm-up grew") {
    auto minutes = minutes_of(60, 0);
    for (std::size_t minute = 0; minute < 10; ++minute) minutes[minute].resident_bytes = 1e6;
    CHECK(growth(minutes, 10, {}).empty());
  }

  TEST_CASE("one minute that stands out does not decide") {
    auto minutes = minutes_of(60, 0);
    minutes.back().resident_bytes += 50e6;
    CHECK(growth(minutes, 10, {}).empty());
  }

  TEST_CASE("memory that grows slowly fails after an hour") {
    CHECK(growth(minutes_of(60, 40e3), 10, {}).empty());  // 1.8 MB
    const auto grown = growth(minutes_of(60, 50e3), 10, {});
    REQUIRE(grown.size() == 1);
    CHECK(grown.front() == "resident memory grew by 2.25 MB, from 60.60 to 62.85: more than 2.00");
  }

  TEST_CASE("allocated memory that grows fails, also where resident memory does not") {
    auto minutes = minutes_of(60, 0);
    for (std::size_t minute = 0; minute < 60; ++minute)
      minutes[minute].allocated_bytes += 25e3 * static_cast<double>(minute);
    const auto grown = growth(minutes, 10, {});
    REQUIRE(grown.size() == 1);
    CHECK(grown.front().starts_with("allocated memory grew by 1.12 MB"));
  }

  TEST_CASE("descriptors and threads that grow fail") {
    auto minutes = minutes_of(60, 0);
    for (std::size_t minute = 50; minute < 60; ++minute) {
      minutes[minute].descriptors += 3;
      minutes[minute].threads += 5;
    }
    CHECK(growth(minutes, 10, {}).size() == 2);
  }

  TEST_CASE("a soak that is shorter than its warm-up fails") {
    CHECK_FALSE(growth(minutes_of(11, 0), 10, {}).empty());
    CHECK(growth(minutes_of(12, 0), 10, {}).empty());
  }
}

}  // namespace
}  // namespace osm::bench
