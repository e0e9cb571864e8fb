// gRPC's own lines are lines of the host's log, bounded for each statement of gRPC.
#include <doctest/doctest.h>
#include <grpc/support/log.h>

#include "osm/runtime/grpc_log.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"

TEST_SUITE("route_grpc_log") {
  TEST_CASE("lines come until the handle's end, an error as a warning") {
    osm::testing::CapturingLog log;
    const osm::testing::ManualClock clock;
    auto lines = osm::route_grpc_log(log, clock);
    gpr_log(GPR_ERROR, "handshake of %d failed", 7);
    REQUIRE(log.lines().size() == 1);
    CHECK(log.lines()[0].text() == "warning: gRPC detail=handshake of 7 failed left_out=0");
    lines.reset();
    gpr_log(GPR_ERROR, "this line is gRPC's alone");
    CHECK(log.lines().size() == 1);
  }

  TEST_CASE("frequent lines of one statement hide none of another one") {
    osm::testing::CapturingLog log;
    osm::testing::ManualClock clock;
    const auto lines = osm::route_grpc_log(log, clock);
    const auto frequent = [] { gpr_log(GPR_ERROR, "frequent"); };
    for (int i = 0; i < 20; ++i) frequent();
    CHECK(log.count("frequent") == 10);
    gpr_log(GPR_ERROR, "rare");
    CHECK(log.count("rare") == 1);
    clock.advance(std::chrono::seconds(10));
    frequent();
    CHECK(log.count("left_out=10") == 1);
  }
}
