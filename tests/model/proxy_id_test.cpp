// A workload's name gives the UUID that a machine of this name has; UUIDs are read in lower case
// only.
#include "osm/values/proxy_id.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace osm;

TEST_SUITE("osm::derived_proxy_id") {
  TEST_CASE("a workload's name gives the UUID that a machine of this name has, for ever") {
    // Computed by another implementation: python3 -c 'uuid.uuid5(namespace, "cluster.local/...")'.
    CHECK(derived_proxy_id(TrustDomain("cluster.local"), {"bookstore", "bookstore-v1"}).str() ==
          "2dfe5765-e646-51b0-929f-d39c2c22e6e3");
    CHECK(derived_proxy_id(TrustDomain("other.local"), {"bookstore", "bookstore-v1"}).str() !=
          "2dfe5765-e646-51b0-929f-d39c2c22e6e3");
  }
}

TEST_SUITE("osm::parse_proxy_id") {
  TEST_CASE("a proxy's UUID is read in lower case only") {
    const std::string text = "2dfe5765-e646-51b0-929f-d39c2c22e6e3";
    CHECK(parse_proxy_id(text).value() == ProxyId(text));
    for (const char* wrong :
         {"", "bookstore", "2DFE5765-E646-51B0-929F-D39C2C22E6E3",
          "2dfe5765e64651b0929fd39c2c22e6e3", "2dfe5765-e646-51b0-929f-d39c2c22e6e3\n"}) {
      const auto read = parse_proxy_id(wrong);
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().code == ErrorCode::kInvalidField);
      CHECK(read.error().message.find("derived_proxy_id") != std::string::npos);
    }
  }
}
