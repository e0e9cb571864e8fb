// Ports that a test draws together differ from each other.
#include "lib/free_ports.hpp"

#include <algorithm>

TEST_SUITE("testing::free_ports") {
  TEST_CASE("no port is drawn twice") {
    // The kernel draws from some 28,000: of so many drawn one by one, ten pairs would be equal.
    auto ports = osm::testing::free_ports<800>();
    std::ranges::sort(ports);
    CHECK(std::ranges::adjacent_find(ports) == ports.end());
    CHECK(ports.front() > 0);
  }
}
