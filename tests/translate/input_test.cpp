// The key of an input covers the kind, the name and each member of the values.
#include "translate/input.hpp"

#include <doctest/doctest.h>

using namespace osm;

namespace {

struct Values {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "values";

  std::string host, path;

  translate::Encoding encode(const std::string&) const { return {host + path, {}}; }
};

// `Values` after somebody added a member.
struct MoreValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "values";

  std::string host, path;
  Port port{};

  translate::Encoding encode(const std::string&) const { return {host + path, {}}; }
};

struct OtherValues {
  static constexpr XdsType kType = XdsType::kCluster;
  static constexpr std::string_view kKind = "other-values";

  std::string host, path;

  translate::Encoding encode(const std::string&) const { return {host + path, {}}; }
};

template <class V>
Digest key_of(V values, const std::string& name = "name") {
  return translate::make_input(name, std::move(values))->key();
}

}  // namespace

TEST_SUITE("translate::InputOf") {
  TEST_CASE("a member that is added to the values is in the key") {
    CHECK(key_of(MoreValues{"a", "b"}) != key_of(Values{"a", "b"}));
    CHECK(key_of(MoreValues{"a", "b"}) != key_of(MoreValues{"a", "b", Port{80}}));
  }

  TEST_CASE("members that swap their values have another key, though the bytes are equal") {
    CHECK(key_of(Values{"ab", ""}) != key_of(Values{"", "ab"}));
    CHECK(key_of(Values{"a", "b"}) == key_of(Values{"a", "b"}));
  }

  TEST_CASE("inputs of two kinds or names never share a key") {
    CHECK(key_of(Values{"a", "b"}) != key_of(OtherValues{"a", "b"}));
    CHECK(key_of(Values{"a", "b"}) != key_of(Values{"a", "b"}, "other"));
  }
}
