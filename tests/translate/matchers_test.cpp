// Regular expressions become literals and prefixes where that is exact.
#include "translate/matchers.hpp"

#include <doctest/doctest.h>

using osm::translate::PathMatch;
using osm::translate::Pattern;
using osm::translate::pattern_of;
using Kind = osm::translate::Pattern::Kind;

TEST_SUITE("translate::matchers") {
  TEST_CASE("a regex that needs none becomes any, a literal or a prefix") {
    CHECK(pattern_of(".*") == Pattern{Kind::kAny, ""});
    CHECK(pattern_of("/books") == Pattern{Kind::kExact, "/books"});
    CHECK(pattern_of("/a\\.html") == Pattern{Kind::kExact, "/a.html"});
    CHECK(pattern_of("/status/.*") == Pattern{Kind::kPrefix, "/status/"});
    CHECK(pattern_of("/v1\\.0/.*") == Pattern{Kind::kPrefix, "/v1.0/"});
  }

  TEST_CASE("a regex without an equivalent literal stays unchanged") {
    for (const char* regex :
         {"/a.html", "/a|/b", "/(a|b)", "/a+", "/a?", "/[ab]", "/a{2}", "^/a", "/a$", "/.*/b",
          "/a.*b.*", "/a\\.*", "/\\d.*", "/a\\", "(?i)/a", "/a.*.*", "/a(.*", "a|.*"})
      CHECK_MESSAGE((pattern_of(regex) == Pattern{Kind::kRegex, regex}), regex);
  }

  TEST_CASE("a match with several methods becomes one for each") {
    const PathMatch any{"/a", {}, {{"x-user", "b"}}};
    CHECK(any.by_method() == std::vector{any});
    PathMatch get = any, post = any;
    get.methods = {"GET"};
    post.methods = {"POST"};
    CHECK(PathMatch{"/a", {"GET", "POST"}, any.headers}.by_method() == std::vector{get, post});
  }

  TEST_CASE("the names of a policy's match are not in a match of an input") {
    CHECK(PathMatch::of({"m", "/a", {"GET"}, {{"x-user", "b"}}, {"shop", "routes"}}) ==
          PathMatch{"/a", {"GET"}, {{"x-user", "b"}}});
  }

  TEST_CASE("the SMI header `host` is the request's authority") {
    CHECK(osm::translate::header_matcher("host", pattern_of("a")).name() == ":authority");
    CHECK(osm::translate::header_matcher("x-host", pattern_of("a")).name() == "x-host");
  }

  TEST_CASE("a header that may have any value must be present") {
    CHECK(osm::translate::header_matcher("x-user", pattern_of(".*")).present_match());
  }
}
