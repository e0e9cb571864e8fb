#include "nack_provenance/bisection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <vector>

#include "lib/run.hpp"

using osm::catalog::NackInquest;

namespace {

std::size_t bound(std::size_t suspects) { return std::bit_width(suspects); }  // floor(log2 n) + 1

// A proxy that refuses every mesh with a culprit in it.
std::optional<std::size_t> search(NackInquest& inquest, const std::vector<int>& suspects,
                                  const std::set<int>& culprits) {
  while (const auto trial = inquest.next()) {
    const auto end = suspects.begin() + static_cast<std::ptrdiff_t>(*trial);
    inquest.answered(
        std::none_of(suspects.begin(), end, [&](int o) { return culprits.contains(o); }));
  }
  return inquest.culprit();
}

}  // namespace

TEST_SUITE("nack_provenance::Bisection") {
  TEST_CASE("every culprit of every number of suspects is found within the bound") {
    for (std::size_t n = 1; n <= 70; ++n) {
      std::vector<int> suspects(n);
      std::iota(suspects.begin(), suspects.end(), 0);
      for (std::size_t culprit = 0; culprit < n; ++culprit) {
        NackInquest inquest(n);
        REQUIRE(search(inquest, suspects, {static_cast<int>(culprit)}) == culprit);
        REQUIRE(inquest.trials() <= bound(n));
      }
    }
  }

  TEST_CASE("a proxy that refuses every mesh refuses none of the objects in particular") {
    for (std::size_t n : {0U, 1U, 2U, 7U, 200U}) {
      NackInquest inquest(n);
      while (inquest.next()) inquest.answered(false);
      CHECK_FALSE(inquest.culprit());
      CHECK(inquest.trials() <= bound(n));
    }
  }

  TEST_CASE("nobody is named before the search is over") {
    NackInquest inquest(5);
    CHECK_FALSE(inquest.culprit());
    inquest.answered(true);
    CHECK_FALSE(inquest.culprit());
  }

  TEST_CASE("a suspect that stands out is found in one trial, and costs one when it is innocent") {
    std::vector<int> suspects(200);
    std::iota(suspects.begin(), suspects.end(), 0);
    NackInquest right(200, true);
    CHECK(search(right, suspects, {199}) == 199U);
    CHECK(right.trials() == 1);
    for (int culprit = 0; culprit < 199; ++culprit) {
      NackInquest wrong(200, true);
      REQUIRE(search(wrong, suspects, {culprit}) == static_cast<std::size_t>(culprit));
      REQUIRE(wrong.trials() <= bound(200) + 1);
    }
  }

  TEST_CASE("random sets of culprits are found one after the other, each within the bound") {
    auto random = osm::testing::seeded();
    const int rounds = osm::testing::steps(2'000, 50'000);
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> suspects(1 + random() % 200);
      std::iota(suspects.begin(), suspects.end(), 0);
      std::shuffle(suspects.begin(), suspects.end(), random);
      std::set<int> culprits;
      for (std::size_t i = 0; i < 1 + random() % 3; ++i)
        culprits.insert(suspects[random() % suspects.size()]);
      std::set<int> found;
      while (found != culprits) {
        NackInquest inquest(suspects.size());
        const auto culprit = search(inquest, suspects, culprits);
        REQUIRE(culprit.has_value());
        REQUIRE(inquest.trials() <= bound(suspects.size()));
        REQUIRE(culprits.contains(suspects[*culprit]));
        REQUIRE(found.insert(suspects[*culprit]).second);
        suspects.erase(suspects.begin() + static_cast<std::ptrdiff_t>(*culprit));
      }
    }
  }

  TEST_CASE("of two objects that are refused together only, the later is named") {
    for (std::size_t first = 0; first < 20; ++first) {
      for (std::size_t second = first + 1; second < 20; ++second) {
        NackInquest inquest(20);
        while (const auto trial = inquest.next())
          inquest.answered(!(*trial > first && *trial > second));
        REQUIRE(inquest.culprit() == second);
      }
    }
  }
}
