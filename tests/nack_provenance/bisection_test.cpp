// The search for refused objects finds all of them within its bound of trials.
#include "nack_provenance/bisection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <vector>

#include "lib/run.hpp"

using osm::nack_provenance::Bisection;

namespace {

std::size_t bound(std::size_t candidates) {
  return std::bit_width(candidates);
}  // floor(log2 n) + 1

// Searches with a proxy that refuses every mesh with one of `refused` in it.
std::optional<std::size_t> search(Bisection& bisection, const std::vector<int>& candidates,
                                  const std::set<int>& refused) {
  while (const auto trial = bisection.next()) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(*trial);
    bisection.answered(
        std::none_of(candidates.begin(), end, [&](int o) { return refused.contains(o); }));
  }
  return bisection.found();
}

}  // namespace

TEST_SUITE("nack_provenance::Bisection") {
  TEST_CASE("each candidate of any number of candidates is found within the bound") {
    for (std::size_t n = 1; n <= 70; ++n) {
      std::vector<int> candidates(n);
      std::iota(candidates.begin(), candidates.end(), 0);
      for (std::size_t one = 0; one < n; ++one) {
        Bisection bisection(n);
        REQUIRE(search(bisection, candidates, {static_cast<int>(one)}) == one);
        REQUIRE(bisection.trials() <= bound(n));
      }
    }
  }

  TEST_CASE("no candidate is found if the proxy refuses every mesh") {
    for (std::size_t n : {0U, 1U, 2U, 7U, 200U}) {
      Bisection bisection(n);
      while (bisection.next()) bisection.answered(false);
      CHECK_FALSE(bisection.found());
      CHECK(bisection.trials() <= bound(n));
    }
  }

  TEST_CASE("no candidate is found before the search is over") {
    Bisection bisection(5);
    CHECK_FALSE(bisection.found());
    bisection.answered(true);
    CHECK_FALSE(bisection.found());
  }

  TEST_CASE("a likely candidate takes one trial if it is refused, and one more trial if not") {
    std::vector<int> candidates(200);
    std::iota(candidates.begin(), candidates.end(), 0);
    Bisection right(200, {1});
    CHECK(search(right, candidates, {199}) == 199U);
    CHECK(right.trials() == 1);
    for (int one = 0; one < 199; ++one) {
      Bisection wrong(200, {1});
      REQUIRE(search(wrong, candidates, {one}) == static_cast<std::size_t>(one));
      REQUIRE(wrong.trials() <= bound(200) + 1);
    }
  }

  TEST_CASE("a candidate of a likely group is found by its group's size, any other by one more") {
    std::vector<int> candidates(5000);
    std::iota(candidates.begin(), candidates.end(), 0);
    const std::vector<std::size_t> likely{1, 4, 30};
    for (int one = 0; one < 5000; ++one) {
      Bisection bisection(5000, likely);
      REQUIRE(search(bisection, candidates, {one}) == static_cast<std::size_t>(one));
      const std::size_t group = one >= 4996 ? 4 : one >= 4970 ? 30 : 5000;
      REQUIRE(bisection.trials() <= bound(group) + likely.size());
    }
    Bisection whole(3, {1, 3});  // the last group may be the whole list
    while (whole.next()) whole.answered(false);
    CHECK_FALSE(whole.found());
  }

  TEST_CASE(
      "random sets of refused candidates are found one after the other, each within the bound") {
    auto random = osm::testing::seeded();
    const int rounds = osm::testing::steps(2'000, 50'000);
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> candidates(1 + random() % 200);
      std::iota(candidates.begin(), candidates.end(), 0);
      std::shuffle(candidates.begin(), candidates.end(), random);
      std::set<int> refused;
      for (std::size_t i = 0; i < 1 + random() % 3; ++i)
        refused.insert(candidates[random() % candidates.size()]);
      std::set<int> found;
      while (found != refused) {
        Bisection bisection(candidates.size());
        const auto one = search(bisection, candidates, refused);
        REQUIRE(one.has_value());
        REQUIRE(bisection.trials() <= bound(candidates.size()));
        REQUIRE(refused.contains(candidates[*one]));
        REQUIRE(found.insert(candidates[*one]).second);
        candidates.erase(candidates.begin() + static_cast<std::ptrdiff_t>(*one));
      }
    }
  }

  TEST_CASE("the later of two candidates that are refused only together is found") {
    for (std::size_t first = 0; first < 20; ++first) {
      for (std::size_t second = first + 1; second < 20; ++second) {
        Bisection bisection(20);
        while (const auto trial = bisection.next())
          bisection.answered(!(*trial > first && *trial > second));
        REQUIRE(bisection.found() == second);
      }
    }
  }
}
