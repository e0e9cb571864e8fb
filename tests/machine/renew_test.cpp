// Checks that end before the controller is asked, and the pauses between checks. tests/daemons
// renews and drains machines of a real controller.
#include "osm/machine/renew.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "machine/machine_directory.hpp"
#include "osm/machine/leave.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::machine;
using namespace std::chrono_literals;

TEST_SUITE("machine::renew") {
  TEST_CASE("an expired certificate is not shown to the controller") {
    const MachineDirectory machine(-1h);
    const SystemClock clock;
    const auto renewed = renew({.directory = machine.str()}, clock);
    REQUIRE_FALSE(renewed.ok());
    CHECK(renewed.error().code == ErrorCode::kCertificateExpired);
    const auto drained = drain({.directory = machine.str()}, clock);
    REQUIRE_FALSE(drained.ok());
    CHECK(drained.error().code == ErrorCode::kCertificateExpired);
  }

  TEST_CASE("a directory without a machine's files is named, with the remedy") {
    const testing::TemporaryDirectory directory;
    const SystemClock clock;
    for (const std::string& path : {directory.str(), directory.file("none")}) {
      CAPTURE(path);
      const auto renewed = renew({.directory = path}, clock);
      REQUIRE_FALSE(renewed.ok());
      CHECK(renewed.error().code == ErrorCode::kStorage);
      CHECK(renewed.error().message.find(path) == 0);
      CHECK(renewed.error().message.find("osm vm bootstrap") != std::string::npos);
      CHECK(drain({.directory = path}, clock).error().code == ErrorCode::kStorage);
    }
  }
}

TEST_SUITE("machine::RenewalPace") {
  TEST_CASE("a pause is between a half and all of the longest one") {
    RandomRng rng(1);
    RenewalPace pace(10min, rng);
    for (int i = 0; i < 1000; ++i) {
      const auto pause = pace.pause_after(true);
      CHECK(pause >= 5min);
      CHECK(pause <= 10min);
    }
  }

  TEST_CASE("failures are followed by short pauses that grow to five minutes") {
    RandomRng rng(1);
    RenewalPace pace(24h, rng);
    CHECK(pace.pause_after(false) <= 1s);
    CHECK(pace.pause_after(false) <= 2s);
    CHECK(pace.pause_after(false) >= 2s);
    for (int i = 0; i < 20; ++i) pace.pause_after(false);
    CHECK(pace.pause_after(false) >= 150s);
    CHECK(pace.pause_after(false) <= 5min);
    CHECK(pace.pause_after(true) >= 12h);
    CHECK(pace.pause_after(false) <= 1s);
  }

  TEST_CASE("a pause after a failure is not longer than the others") {
    RandomRng rng(1);
    RenewalPace pace(1s, rng);
    for (int i = 0; i < 100; ++i) CHECK(pace.pause_after(false) <= 1s);
  }
}
