// A strand whose task never ends is told from one that is idle, busy or at long work.
#include "base/pulse.hpp"

#include <doctest/doctest.h>

#include <chrono>

#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

struct Watched {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  Strand strand{executor};
  Pulse pulse{"the work", strand, clock};

  // Lets time pass in which nobody asks.
  bool alive_after(std::chrono::seconds time) {
    clock.advance(time);
    return pulse.check().ok();
  }
};

TEST_SUITE("Pulse") {
  TEST_CASE("an idle strand is alive, however long it has nothing to do") {
    Watched watched;
    CHECK(watched.pulse.check().ok());
    CHECK(watched.alive_after(1h));
    watched.strand.post([] {});
    watched.executor.run_until_idle();
    CHECK(watched.alive_after(1h));
    watched.clock.advance(1h);
    watched.strand.post([] {});  // it waits for a thread since just now
    CHECK(watched.pulse.check().ok());
    watched.executor.run_until_idle();
    watched.clock.advance(1h);
    watched.strand.post([] {});
    CHECK(watched.pulse.check().ok());
  }

  TEST_CASE("a task that runs for 30 s hangs, with its name, and is alive again when it ends") {
    Watched watched;
    watched.strand.post([&] {
      CHECK(watched.pulse.check().ok());
      CHECK(watched.alive_after(29s));
      CHECK_FALSE(watched.alive_after(1s));
      const Status hangs = watched.pulse.check();
      REQUIRE_FALSE(hangs.ok());
      CHECK(hangs.error().message == "the work: nothing has happened for 30 s");
    });
    watched.executor.run_until_idle();
    CHECK(watched.pulse.check().ok());
  }

  TEST_CASE("a task that no thread of the executor takes hangs") {
    Watched watched;
    watched.strand.post([] {});
    CHECK(watched.pulse.check().ok());
    CHECK_FALSE(watched.alive_after(30s));
    watched.executor.run_until_idle();
    CHECK(watched.pulse.check().ok());
  }

  TEST_CASE("a queue is no hang while each task ends in time") {
    Watched watched;
    for (int i = 0; i < 10; ++i)
      watched.strand.post([&] {
        CHECK(watched.pulse.check().ok());
        CHECK(watched.alive_after(20s));
      });
    watched.executor.run_until_idle();
  }

  TEST_CASE("a long task that ticks is no hang") {
    Watched watched;
    watched.strand.post([&] {
      CHECK(watched.pulse.check().ok());
      for (int i = 0; i < 10; ++i) {
        CHECK(watched.alive_after(29s));
        watched.strand.tick();
        CHECK(watched.pulse.check().ok());
      }
      CHECK_FALSE(watched.alive_after(30s));
    });
    watched.executor.run_until_idle();
  }

  TEST_CASE("a strand that has stopped is alive") {
    Watched watched;
    watched.strand.post([] {});
    CHECK(watched.pulse.check().ok());
    watched.strand.stop();
    CHECK(watched.alive_after(1h));
    CHECK(watched.alive_after(1h));
  }
}

}  // namespace
