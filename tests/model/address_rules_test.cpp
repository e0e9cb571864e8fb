// Claims of addresses: the smallest allotted network decides, and without one the kind of the
// address; assigned addresses come before older ones.
#include "model/address_rules.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace osm;
using osm::model::AddressClaim;
using osm::model::may_claim;

namespace {

constexpr std::uint32_t ip(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

AddressClaim claim(const std::string& ns, std::uint64_t created, bool assigned = false) {
  return {"10.0.0.7", {kinds::kService, ns, "x"}, {created, {}}, assigned};
}

}  // namespace

TEST_SUITE("model::may_claim") {
  TEST_CASE("without allotments any namespace claims what the internet does not route") {
    for (const char* one :
         {"10.0.0.1", "10.255.255.255", "100.64.0.1", "172.16.0.1", "172.31.9.9", "192.168.1.1",
          "192.0.2.9", "198.18.0.1", "198.19.255.1", "198.51.100.7", "203.0.113.7", "240.240.0.1"})
      CHECK_MESSAGE(may_claim({}, one, "shop"), one);
    for (const char* one : {"8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.0.1", "100.128.0.1",
                            "172.15.0.1", "172.32.0.1", "192.0.3.1", "192.167.1.1", "198.20.0.1",
                            "169.254.169.254", "127.0.0.1", "0.0.0.0", "224.0.0.1", "fd00::1", ""})
      CHECK_MESSAGE(!may_claim({}, one, "shop"), one);
  }

  TEST_CASE("the smallest allotted network decides, in any order") {
    const AddressAllotment all{{{0, 0}}, {}};
    const AddressAllotment shop{{{ip(10, 1, 0, 0), 16}, {ip(8, 8, 8, 0), 24}}, {"shop", "web"}};
    const AddressAllotment one{{{ip(10, 1, 2, 3), 32}}, {"db"}};
    const AddressAllotment everybody{{{ip(10, 9, 0, 0), 16}}, {"*"}};
    for (const auto& allotments :
         {std::vector{all, shop, one, everybody}, std::vector{everybody, one, shop, all}}) {
      CHECK(may_claim(allotments, "10.1.0.1", "shop"));
      CHECK(may_claim(allotments, "8.8.8.8", "web"));
      CHECK_FALSE(may_claim(allotments, "10.1.0.1", "db"));
      CHECK(may_claim(allotments, "10.1.2.3", "db"));
      CHECK_FALSE(may_claim(allotments, "10.1.2.3", "shop"));
      CHECK(may_claim(allotments, "10.9.0.1", "any"));
      CHECK_FALSE(may_claim(allotments, "192.168.0.1", "shop"));  // nobody's
    }
    CHECK(may_claim({shop, one}, "192.168.0.1", "any"));  // the default stays for the rest
    CHECK_FALSE(may_claim({shop, one}, "8.8.4.4", "shop"));
  }

  TEST_CASE("one network in two elements belongs to the namespaces of both") {
    const std::vector<AddressAllotment> twice{{{{ip(10, 1, 0, 0), 16}}, {"a"}},
                                              {{{ip(10, 1, 0, 0), 16}}, {"b"}}};
    CHECK(may_claim(twice, "10.1.0.1", "a"));
    CHECK(may_claim(twice, "10.1.0.1", "b"));
    CHECK_FALSE(may_claim(twice, "10.1.0.1", "c"));
  }
}

TEST_SUITE("model::AddressClaim") {
  TEST_CASE("an assigned address comes first, then the older object, then the first by name") {
    using model::comes_before;
    CHECK(comes_before(claim("b", 9, true), claim("a", 1)));
    CHECK(comes_before(claim("b", 1), claim("a", 2)));
    CHECK(comes_before(claim("a", 1), claim("b", 1)));
    CHECK_FALSE(comes_before(claim("a", 1), claim("a", 1)));
    AddressClaim first = claim("b", 1), second = claim("a", 1);
    first.created.uid = "1";
    second.created.uid = "2";
    CHECK(comes_before(first, second));
  }
}
