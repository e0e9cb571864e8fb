// The first trigger fires at once, a burst fires once, a storm every 100 ms.
#include "base/debounce.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

struct Fixture {
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  SteadyTime start = clock.steady_now();
  std::vector<long> fired;  // in ms since the start
  Debounce debounce{
      executor, clock, DebounceOptions{20ms, 100ms}, [this] {
        const auto at = clock.steady_now() - start;
        fired.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(at).count());
      }};
};

TEST_SUITE("Debounce") {
  TEST_CASE("the first trigger fires at once, inside the call") {
    Fixture f;
    f.debounce.trigger();
    CHECK(f.fired == std::vector<long>{0});
    f.executor.run_for(1s);
    CHECK(f.fired == std::vector<long>{0});
  }

  TEST_CASE("a trigger after a quiet time fires at once again") {
    Fixture f;
    f.debounce.trigger();
    f.executor.run_for(20ms);
    f.debounce.trigger();
    CHECK(f.fired == std::vector<long>{0, 20});
  }

  TEST_CASE("triggers soon after the first are joined until none came for 20 ms") {
    Fixture f;
    f.debounce.trigger();
    for (int i = 0; i < 3; ++i) {
      f.executor.run_for(10ms);
      f.debounce.trigger();  // at 10, 20 and 30 ms
    }
    CHECK(f.fired == std::vector<long>{0});
    f.executor.run_for(1s);
    CHECK(f.fired == std::vector<long>{0, 50});
  }

  TEST_CASE("a storm without a pause fires every 100 ms at the latest") {
    Fixture f;
    for (int i = 0; i < 50; ++i) {
      f.debounce.trigger();
      f.executor.run_for(5ms);
    }
    f.executor.run_for(1s);
    // Waiting starts with the first trigger after each firing: at 5, 105 and 205 ms; the last
    // trigger is at 245 ms.
    CHECK(f.fired == std::vector<long>{0, 105, 205, 265});
  }

  TEST_CASE("a trigger from inside the firing is not lost") {
    testing::ManualClock clock;
    testing::ManualExecutor executor(clock);
    int fired = 0;
    Debounce* self = nullptr;
    Debounce debounce(executor, clock, {}, [&] {
      if (++fired < 3) self->trigger();
    });
    self = &debounce;
    debounce.trigger();
    executor.run_for(1s);
    CHECK(fired == 3);
  }

  TEST_CASE("nothing fires after it is destroyed") {
    testing::ManualClock clock;
    testing::ManualExecutor executor(clock);
    int fired = 0;
    {
      Debounce debounce(executor, clock, {}, [&] { ++fired; });
      debounce.trigger();
      debounce.trigger();
      CHECK(executor.timers() == 1);
    }
    executor.run_for(1s);
    CHECK(fired == 1);
    CHECK(executor.timers() == 0);
  }
}

}  // namespace
