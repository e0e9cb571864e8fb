// A board with one member returns its own entries and calls subscribers.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>

#include "osm/runtime/replica_board.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using Said = std::map<std::string, std::string>;

TEST_SUITE("make_local_board") {
  TEST_CASE("a local board returns its own texts and notifies subscribers") {
    testing::ManualClock clock;
    testing::ManualExecutor executor{clock};
    auto board = make_local_board("here", executor);
    int heard = 0;
    const Subscription listening = board->subscribe([&] { ++heard; });
    CHECK(*board->read("status") == Said{{"here", ""}});
    REQUIRE(board->publish("status", "one").ok());
    REQUIRE(board->publish("status", "one").ok());
    executor.run_until_idle();
    CHECK(*board->read("status") == Said{{"here", "one"}});
    CHECK(*board->read("other") == Said{{"here", ""}});
    CHECK(heard == 1);
  }
}
