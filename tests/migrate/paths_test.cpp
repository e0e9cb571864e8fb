// No expression of paths is cleared that accepts another form than the normal one, and two that
// share a path overlap.
#include "migrate/paths.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "lib/run.hpp"
#include "model/path_forms.hpp"

using namespace osm;
using namespace osm::migrate;

TEST_SUITE_BEGIN("migrate::paths");

namespace {

std::string drawn(std::mt19937_64& rng, const std::vector<std::string>& parts, std::size_t most) {
  std::string out = "/";
  for (std::size_t i = rng() % (most + 1); i > 0; --i) out += parts[rng() % parts.size()];
  return out;
}

}  // namespace

TEST_CASE("an expression with wildcards may accept paths in other forms") {
  for (const char* regex : {"/.*", "/a.*", "/[^/]+", "/a/*", "/(a//b)", "/a%[0-9a-z]+",
                            "/a%2F[a-z]", "/a//[a-z]", "/a/[a-z]*/b", "/\\S+", "/%4[0-9]", "/x|/y"})
    CHECK_MESSAGE(may_accept_other_forms(regex), std::string(regex));
}

TEST_CASE("a literal and classes without special characters accept none, or their own text") {
  for (const char* regex : {"/a", "/a%2Fb", "/a//b", "/a\\.b", "/items/[0-9]+", "/\\d{1,3}/\\w+/?",
                            "/v1\\.0/[a-z-]+", "/%20[x]"})
    CHECK_MESSAGE(!may_accept_other_forms(regex), std::string(regex));
}

TEST_CASE("no expression that is cleared accepts several texts, one of them in another form") {
  const std::vector<std::string> atoms{
      "a", "/", "\\.",   "%",  "2",    "F",     "[a-f]",       "[0-9]*", "\\d+", "[a-z/]",
      "?", "*", "[.x]?", "/?", "[^a]", "{0,2}", "[[:alpha:]]", "\\w?",   "4",    "1"};
  const std::vector<std::string> texts{"a", "/", ".", "%", "2", "F", "1", "4", "f"};
  const RE2 other_forms(model::kOtherPathForms);
  auto rng = testing::seeded();
  int cleared = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string expression = drawn(rng, atoms, 6);
    const RE2 regex(expression, RE2::Quiet);
    if (!regex.ok() || may_accept_other_forms(expression)) continue;
    ++cleared;
    for (int k = 0; k < 50; ++k) {
      const std::string path = drawn(rng, texts, 6);
      if (path != expression && RE2::FullMatch(path, regex))
        CHECK_MESSAGE(!RE2::FullMatch(path, other_forms), expression << " accepts " << path);
    }
  }
  CHECK(cleared > 100);
}

TEST_CASE("two expressions overlap if a path may match both") {
  const auto overlap = [](const char* a, const char* b) {
    CHECK(PathSet(a).may_overlap(PathSet(b)) == PathSet(b).may_overlap(PathSet(a)));
    return PathSet(a).may_overlap(PathSet(b));
  };
  CHECK(overlap(".*", "/a"));
  CHECK(overlap("/a.*", "/ab/.*"));
  CHECK(overlap("/a", "/a"));
  CHECK(overlap(".*x", "/b.*"));
  CHECK_FALSE(overlap("/a", "/b"));
  CHECK_FALSE(overlap("/a/.*", "/b/.*"));
  CHECK_FALSE(overlap("/items/[0-9]+", "/items/abc"));
}

TEST_CASE("an expression of one text is known as a literal") {
  REQUIRE(PathSet("/a\\.b").only() != nullptr);
  CHECK(*PathSet("/a\\.b").only() == "/a.b");
  CHECK(PathSet("/a.b").only() == nullptr);
  CHECK(PathSet(".*").only() == nullptr);
}

TEST_SUITE_END();
