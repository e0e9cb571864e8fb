// Tasks run in order and never two at once; `stop` waits; timers can be cancelled.
#include "base/strand.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "osm/testing/manual_executor.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using testing::ManualClock;
using testing::ManualExecutor;
using testing::ThreadExecutor;
using testing::wait_until;
using namespace std::chrono_literals;

TEST_SUITE("Strand") {
  TEST_CASE("tasks run in the order they were posted, never two at once") {
    ThreadExecutor executor(4);
    Strand strand(executor);
    std::vector<int> order;  // unguarded on purpose: the strand is the guard
    std::atomic<int> inside{0};
    std::atomic<bool> overlapped{false};
    constexpr int kTasks = 2000;
    std::promise<void> done;
    for (int i = 0; i < kTasks; ++i) {
      strand.post([&, i] {
        if (inside.fetch_add(1) != 0) overlapped = true;
        order.push_back(i);
        inside.fetch_sub(1);
        if (i == kTasks - 1) done.set_value();
      });
    }
    REQUIRE(done.get_future().wait_for(10s) == std::future_status::ready);
    strand.stop();
    CHECK_FALSE(overlapped);
    REQUIRE(order.size() == kTasks);
    for (int i = 0; i < kTasks; ++i) REQUIRE(order[static_cast<std::size_t>(i)] == i);
  }

  TEST_CASE("a task that is posted by a task runs after it, not inside it") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    std::string trace;
    strand.post([&] {
      strand.post([&] { trace += "inner "; });
      trace += "outer ";
    });
    CHECK(trace.empty());
    executor.run_until_idle();
    CHECK(trace == "outer inner ");
  }

  TEST_CASE("a queue that never empties lets other work of the executor go first") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    int ran = 0;
    bool other = false;
    const std::function<void()> task = [&] {
      if (++ran < 10'000 && !other) strand.post(task);
    };
    strand.post(task);
    executor.post([&] { other = true; });
    executor.run_until_idle();
    CHECK(other);
    CHECK(ran < 200);
  }

  TEST_CASE("stop waits for the task that runs, and later posts are dropped") {
    ThreadExecutor executor(2);
    Strand strand(executor);
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    std::atomic<bool> dropped_ran{false};
    strand.post([&] {
      started.set_value();
      release.get_future().wait();
      finished = true;
    });
    started.get_future().wait();
    std::thread releaser([&] { release.set_value(); });
    strand.stop();
    CHECK(finished);
    releaser.join();
    strand.post([&] { dropped_ran = true; });
    std::promise<void> flushed;
    executor.post([&] { flushed.set_value(); });
    flushed.get_future().wait();
    CHECK_FALSE(dropped_ran);
  }

  TEST_CASE("a task may stop its own strand, which drops what is queued behind it") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    int ran = 0;
    strand.post([&] {
      ++ran;
      strand.stop();
    });
    strand.post([&] { ++ran; });
    executor.run_until_idle();
    CHECK(ran == 1);
  }

  TEST_CASE("captures of a dropped task may use the strand in their destructors") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    struct PostsWhenDestroyed {
      Strand& target;
      ~PostsWhenDestroyed() {
        target.post([] {});
      }
    };
    strand.post([held = std::make_shared<PostsWhenDestroyed>(PostsWhenDestroyed{strand})] {});
    strand.stop();  // would deadlock if it destroyed the task under its lock
  }

  TEST_CASE("post_after runs on the strand when the time has come") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    int fired = 0;
    Subscription timer = strand.post_after(50ms, [&] { ++fired; });
    executor.run_for(49ms);
    CHECK(fired == 0);
    executor.run_for(1ms);
    CHECK(fired == 1);
    executor.run_for(1s);
    CHECK(fired == 1);
  }

  TEST_CASE("a timer that is cancelled between firing and its turn on the strand does not run") {
    ManualClock clock;
    ManualExecutor executor(clock);
    Strand strand(executor);
    int fired = 0;
    Subscription timer = strand.post_after(10ms, [&] { ++fired; });
    strand.post([&] { timer.reset(); });
    clock.advance(10ms);
    // One step: the strand is queued before the timer, which then appends to it.
    executor.run_until_idle();
    CHECK(fired == 0);

    Subscription second = strand.post_after(10ms, [&] { ++fired; });
    clock.advance(10ms);
    REQUIRE(executor.run_one());  // the timer fires and queues its task
    CHECK(executor.queued() == 1);
    second.reset();
    executor.run_until_idle();
    CHECK(fired == 0);
  }

  TEST_CASE("cancelling from another thread waits for the timer's task; from within it does not") {
    ThreadExecutor executor(2);
    Strand strand(executor);
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription timer = strand.post_after(1ms, [&, gate = release.get_future().share()] {
      started.set_value();
      gate.wait();
      finished = true;
    });
    REQUIRE(started.get_future().wait_for(10s) == std::future_status::ready);
    std::thread releaser([&] { release.set_value(); });
    timer.reset();
    CHECK(finished);
    releaser.join();

    auto own = std::make_shared<Subscription>();
    std::promise<void> done;
    strand.post([&, own] {
      *own = strand.post_after(1ms, [&, own] {
        own->reset();
        done.set_value();
      });
    });
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
  }

  TEST_CASE("timers outlive their strand without effect") {
    ManualClock clock;
    ManualExecutor executor(clock);
    int fired = 0;
    Subscription timer;
    {
      Strand strand(executor);
      timer = strand.post_after(1ms, [&] { ++fired; });
    }
    executor.run_for(1s);
    CHECK(fired == 0);
  }

  TEST_CASE("a pool knows its own threads, and a strand the threads of its executor") {
    ThreadExecutor executor(2);
    ThreadExecutor other(1);
    Strand strand(executor);
    CHECK_FALSE(executor.running_in_this_thread());
    CHECK_FALSE(strand.running_in_this_thread());
    std::promise<void> done;
    executor.post([&] {
      CHECK(executor.running_in_this_thread());
      CHECK(strand.running_in_this_thread());
      CHECK_FALSE(other.running_in_this_thread());
      done.set_value();
    });
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
  }

  TEST_CASE("two strands of one executor do not wait for each other") {
    ThreadExecutor executor(2);
    Strand first(executor);
    Strand second(executor);
    std::promise<void> release;
    std::promise<void> second_ran;
    first.post([gate = release.get_future().share()] { gate.wait(); });
    second.post([&] { second_ran.set_value(); });
    CHECK(second_ran.get_future().wait_for(10s) == std::future_status::ready);
    release.set_value();
  }
}

}  // namespace
