// Each member of a value counts in its digest.
#include "base/feed.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/ids.hpp"

using namespace osm;

namespace {

enum class Mode { kSlow, kFast };

struct Limit {
  std::uint32_t amount = 0;
  std::optional<std::chrono::milliseconds> unit{};
};

struct Route {
  ServiceName service;
  Port port{};
  Mode mode{};
  bool open = false;
  std::vector<Limit> limits{};
  std::map<std::string, std::string> headers{};
  std::shared_ptr<const std::string> text = std::make_shared<const std::string>();
};

struct Texts {
  std::string first, second;
};
struct MoreTexts {
  std::string first, second, third;
};

struct Lists {
  std::optional<std::vector<std::string>> names;
  std::vector<std::string> more;
  std::optional<std::string> one;
};

template <class T>
Digest fed(const T& value) {
  DigestBuilder digest;
  feed(digest, value);
  return digest.finish();
}

}  // namespace

TEST_SUITE("feed") {
  TEST_CASE("the parts of a name stay apart") {
    CHECK(fed(ServiceName{"a/b", "c"}) != fed(ServiceName{"a", "b/c"}));
  }

  TEST_CASE("equal values have equal digests") {
    const Route route{.service = {"shop", "api"},
                      .port = Port{80},
                      .limits = {{1, std::chrono::seconds(1)}},
                      .headers = {{"host", ".*"}}};
    Route other = route;
    other.text = std::make_shared<const std::string>();  // other pointers, equal texts
    CHECK(fed(route) == fed(other));
  }

  TEST_CASE("a change of any member changes the digest") {
    const Route route{.service = {"shop", "api"}, .limits = {{1, {}}}};
    std::set<Digest> digests{fed(route)};
    const auto differs = [&](auto change) {
      Route other = route;
      change(other);
      CHECK(digests.insert(fed(other)).second);
    };
    differs([](Route& other) { other.service.ns = "bank"; });
    differs([](Route& other) { other.service.name = "web"; });
    differs([](Route& other) { other.port = Port{80}; });
    differs([](Route& other) { other.mode = Mode::kFast; });
    differs([](Route& other) { other.open = true; });
    differs([](Route& other) { other.limits[0].amount = 2; });
    differs([](Route& other) { other.limits[0].unit = std::chrono::milliseconds(0); });
    differs([](Route& other) { other.limits.emplace_back(); });
    differs([](Route& other) { other.headers["host"] = ".*"; });
    differs([](Route& other) { other.headers[".*"] = "host"; });
    differs([](Route& other) { other.text = std::make_shared<const std::string>("a"); });
  }

  TEST_CASE("a struct with one more member has another digest") {
    CHECK(fed(Texts{"a", "b"}) != fed(MoreTexts{"a", "b", ""}));
  }

  TEST_CASE("two members that swap their values change the digest") {
    CHECK(fed(Texts{"a", "b"}) != fed(Texts{"b", "a"}));
    CHECK(fed(Texts{"ab", ""}) != fed(Texts{"a", "b"}));
  }

  TEST_CASE("an empty list and a missing one differ, wherever their values stand") {
    const std::vector<std::string> none, some{"a"};
    CHECK(fed(Lists{}) != fed(Lists{.names = none, .more = {}, .one = {}}));
    CHECK(fed(Lists{.names = {}, .more = some, .one = {}}) !=
          fed(Lists{.names = {}, .more = none, .one = "a"}));
    CHECK(fed(Lists{.names = some, .more = none, .one = {}}) !=
          fed(Lists{.names = none, .more = some, .one = {}}));
  }
}
