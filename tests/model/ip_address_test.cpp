// Addresses that no host can have are not unicast.
#include "model/ip_address.hpp"

#include <doctest/doctest.h>

#include <string_view>

using namespace osm::model;
using namespace std::literals;

TEST_SUITE("model.ip_address") {
  TEST_CASE("a unicast address is of a range that hosts have addresses of") {
    for (const char* address : {"1.0.0.0", "10.0.0.7", "126.255.255.255", "128.0.0.0",
                                "169.254.0.1", "223.255.255.255", "240.0.0.1"}) {
      CAPTURE(address);
      CHECK(is_ipv4(address));
      CHECK(is_unicast_ipv4(address));
    }
    for (const char* address :
         {"0.0.0.0", "0.255.255.255", "127.0.0.0", "127.0.0.1", "127.255.255.255", "224.0.0.0",
          "239.255.255.255", "255.255.255.255"}) {
      CAPTURE(address);
      CHECK(is_ipv4(address));
      CHECK_FALSE(is_unicast_ipv4(address));
    }
  }

  TEST_CASE("what is no IPv4 address is no unicast one") {
    for (const std::string_view text :
         {""sv, "10.0.0"sv, "10.0.0.256"sv, "010.0.0.1"sv, "10.0.0.1 "sv, "10.0.0.1\0x"sv,
          "host.example"sv, "fd00::7"sv}) {
      CAPTURE(text);
      CHECK_FALSE(is_ipv4(text));
      CHECK_FALSE(is_unicast_ipv4(text));
    }
  }
}
