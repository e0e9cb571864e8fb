// The manual executor, clock, log and metrics behave as documented.
#include "osm/testing/manual_executor.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

using namespace std::chrono_literals;

TEST_SUITE("testing::ManualExecutor") {
  TEST_CASE("nothing runs until it is run, and then in the order of posting") {
    ManualClock clock;
    ManualExecutor executor(clock);
    std::string trace;
    executor.post([&] {
      trace += 'a';
      executor.post([&] { trace += 'c'; });
    });
    executor.post([&] { trace += 'b'; });
    CHECK(trace.empty());
    CHECK(executor.queued() == 2);
    CHECK(executor.run_until_idle() == 3);
    CHECK(trace == "abc");
  }

  TEST_CASE("timers fire by deadline, then by age, once the clock is past them and it is run") {
    ManualClock clock;
    ManualExecutor executor(clock);
    std::string trace;
    Subscription c = executor.post_after(3s, [&] { trace += 'c'; });
    Subscription a = executor.post_after(1s, [&] { trace += 'a'; });
    Subscription b = executor.post_after(1s, [&] { trace += 'b'; });
    Subscription now = executor.post_after(0s, [&] { trace += '0'; });
    CHECK(executor.run_until_idle() == 1);
    clock.advance(2s);
    CHECK(trace == "0");
    executor.run_until_idle();
    CHECK(trace == "0ab");
    CHECK(executor.timers() == 1);
    clock.set_wall(clock.wall_now() + 1h);  // the calendar is not what timers go by
    CHECK(executor.run_until_idle() == 0);
    clock.advance_steady(1s);
    executor.run_until_idle();
    CHECK(trace == "0abc");
  }

  TEST_CASE("run_for lets each timer see its own time") {
    ManualClock clock;
    ManualExecutor executor(clock);
    const SteadyTime start = clock.steady_now();
    std::vector<SteadyTime> seen;
    Subscription second;
    Subscription first = executor.post_after(10ms, [&] {
      seen.push_back(clock.steady_now());
      second = executor.post_after(10ms, [&] { seen.push_back(clock.steady_now()); });
    });
    executor.run_for(1s);
    CHECK(seen == std::vector<SteadyTime>{start + 10ms, start + 20ms});
    CHECK(clock.steady_now() == start + 1s);
  }

  TEST_CASE("a dropped handle cancels its timer, even one that is already due") {
    ManualClock clock;
    ManualExecutor executor(clock);
    int fired = 0;
    Subscription timer = executor.post_after(1s, [&] { ++fired; });
    clock.advance(1s);
    CHECK(executor.queued() == 1);
    timer.reset();
    CHECK(executor.run_until_idle() == 0);
    CHECK(fired == 0);
  }

  TEST_CASE("a timer may drop its own handle; another thread that drops it waits") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Subscription own;
    own = executor.post_after(0s, [&] { own.reset(); });
    CHECK(executor.run_until_idle() == 1);

    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription slow = executor.post_after(0s, [&] {
      started.set_value();
      release.get_future().wait();
      finished = true;
    });
    std::thread runner([&] { executor.run_until_idle(); });
    started.get_future().wait();
    std::thread releaser([&] { release.set_value(); });
    slow.reset();
    CHECK(finished);
    runner.join();
    releaser.join();
  }

  TEST_CASE("handles may outlive the executor") {
    ManualClock clock;
    Subscription timer;
    {
      ManualExecutor executor(clock);
      timer = executor.post_after(1s, [] {});
    }
    timer.reset();
  }
}

TEST_SUITE("testing::ThreadExecutor") {
  TEST_CASE("timers fire after their delay unless their handle died before") {
    ThreadExecutor executor(2);
    std::promise<void> fired;
    std::atomic<bool> cancelled_ran{false};
    Subscription cancelled = executor.post_after(1h, [&] { cancelled_ran = true; });
    const auto start = std::chrono::steady_clock::now();
    Subscription timer = executor.post_after(5ms, [&] { fired.set_value(); });
    REQUIRE(fired.get_future().wait_for(10s) == std::future_status::ready);
    CHECK(std::chrono::steady_clock::now() - start >= 5ms);
    cancelled.reset();
    CHECK_FALSE(cancelled_ran);
  }
}

TEST_SUITE("testing::ManualClock") {
  TEST_CASE("wall and steady time move together, or apart when told so") {
    ManualClock clock;
    const WallTime wall = clock.wall_now();
    const SteadyTime steady = clock.steady_now();
    clock.advance(2s);
    CHECK(clock.wall_now() == wall + 2s);
    CHECK(clock.steady_now() == steady + 2s);
    clock.set_wall(wall - 1h);
    CHECK(clock.wall_now() == wall - 1h);
    CHECK(clock.steady_now() == steady + 2s);
    clock.advance_steady(1s);
    CHECK(clock.wall_now() == wall - 1h);
    CHECK(clock.steady_now() == steady + 3s);
  }
}

TEST_SUITE("testing::sinks") {
  TEST_CASE("log lines are kept with their fields and found by their text") {
    CapturingLog log;
    log.warning("object left out", {{"code", "invalid-field"}, {"file", "a.yaml"}});
    log.debug("noise");
    REQUIRE(log.lines().size() == 2);
    CHECK(log.lines()[0].fields.at("code") == "invalid-field");
    CHECK(log.count("code=invalid-field") == 1);
    CHECK(log.all_text().find("debug: noise") != std::string::npos);
    log.clear();
    CHECK(log.lines().empty());
  }

  TEST_CASE("metrics keep counters' sums, gauges' newest values and histograms' observations") {
    constexpr Counter kX{"osm_x_total", "", {"a", "b"}};
    constexpr Gauge kY{"osm_y", ""};
    CapturingMetrics metrics;
    metrics.add(kX, {{"a", "1"}, {"b", "2"}}, 1);
    metrics.add(kX, {{"b", "2"}, {"a", "1"}}, 2);
    metrics.add(kX, {{"a", "2"}}, 4);
    metrics.set(kY, {}, 5);
    metrics.set(kY, {}, 3);
    metrics.observe(Histogram{"osm_z_seconds", ""}, {}, std::chrono::milliseconds(500));
    CHECK(metrics.value("osm_x_total", {{"a", "1"}, {"b", "2"}}) == 3);
    CHECK(metrics.sum("osm_x_total") == 7);
    CHECK(metrics.value("osm_y") == 3);
    CHECK(metrics.observations("osm_z_seconds") == std::vector<double>{0.5});
    CHECK_FALSE(metrics.has("osm_nothing"));
    CHECK(metrics.value("osm_nothing") == 0);
  }
}

}  // namespace
