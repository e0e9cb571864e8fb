// An executor whose task never ends is told from one that is idle, busy or at long work.
#include "base/watched_executor.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>

#include "base/strand.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

struct Watched {
  testing::ManualClock clock;
  testing::ManualExecutor manual{clock};
  WatchedExecutor executor{"the work", manual, clock};

  bool alive_after(std::chrono::seconds time) {
    clock.advance(time);
    return executor.check().ok();
  }
};

TEST_SUITE("WatchedExecutor") {
  TEST_CASE("an executor without tasks is alive, however long it has nothing to do") {
    Watched watched;
    CHECK(watched.alive_after(1h));
    watched.executor.post([] {});  // it waits for a thread since just now
    CHECK(watched.executor.check().ok());
    watched.manual.run_until_idle();
    CHECK(watched.alive_after(1h));
    const Subscription timer = watched.executor.post_after(2h, [] {});
    CHECK(watched.alive_after(1h));
  }

  TEST_CASE("a task that runs for two minutes hangs, with its name, and is alive when it ends") {
    Watched watched;
    const auto hang = [&] {
      CHECK(watched.alive_after(119s));
      CHECK_FALSE(watched.alive_after(1s));
      const Status hangs = watched.executor.check();
      REQUIRE_FALSE(hangs.ok());
      CHECK(hangs.error().code == ErrorCode::kUnavailable);
      CHECK(hangs.error().message == "the work: nothing has happened for 120 s");
    };
    watched.executor.post(hang);
    watched.manual.run_until_idle();
    CHECK(watched.executor.check().ok());
    const Subscription timer = watched.executor.post_after(1s, hang);
    watched.manual.run_for(1s);
    CHECK(watched.executor.check().ok());
  }

  TEST_CASE("one task that hangs is seen among others that go on") {
    testing::ManualClock clock;
    std::promise<void> begun, may_end;
    testing::ThreadExecutor threads{2};
    WatchedExecutor executor("the work", threads, clock);
    executor.post([&] {
      begun.set_value();
      may_end.get_future().wait();
    });
    begun.get_future().wait();
    for (int i = 0; i < 4; ++i) {
      clock.advance(30s);
      std::promise<void> done;
      executor.post([&] { done.set_value(); });
      done.get_future().wait();
    }
    CHECK_FALSE(executor.check().ok());
    may_end.set_value();
    CHECK(testing::wait_until([&] { return executor.check().ok(); }));
  }

  TEST_CASE("a task that no thread of the executor takes hangs") {
    Watched watched;
    watched.executor.post([] {});
    CHECK(watched.alive_after(119s));
    watched.executor.post([] {});
    CHECK_FALSE(watched.alive_after(1s));
    watched.manual.run_until_idle();
    CHECK(watched.executor.check().ok());
  }

  TEST_CASE("a queue is no hang while tasks begin") {
    Watched watched;
    for (int i = 0; i < 10; ++i) watched.executor.post([&] { CHECK(watched.alive_after(100s)); });
    watched.manual.run_until_idle();
  }

  TEST_CASE("a long task that ticks is no hang, nor is it while it ticks through a second watch") {
    Watched watched;
    WatchedExecutor inner("a part", watched.executor, watched.clock, 30s);
    Strand strand(inner);
    for (int task = 0; task < 2; ++task)
      strand.post([&] {
        for (int i = 0; i < 10; ++i) {
          watched.clock.advance(29s);
          CHECK(inner.check().ok());
          CHECK(watched.executor.check().ok());
          WatchedExecutor::tick();
        }
      });
    watched.manual.run_until_idle();
    strand.post([&] {
      watched.clock.advance(30s);
      CHECK_FALSE(inner.check().ok());
      CHECK(watched.executor.check().ok());
    });
    watched.manual.run_until_idle();
    WatchedExecutor::tick();  // of no task
    CHECK(inner.check().ok());
  }

  TEST_CASE("tasks may outlive the executor, and the handle of a timer ends it") {
    testing::ManualClock clock;
    testing::ManualExecutor manual(clock);
    int ran = 0;
    {
      WatchedExecutor executor("the work", manual, clock);
      executor.post([&] { ++ran; });
      const Subscription timer = executor.post_after(1s, [&] { ran += 10; });
    }
    manual.run_for(2s);
    CHECK(ran == 1);
  }
}

}  // namespace
