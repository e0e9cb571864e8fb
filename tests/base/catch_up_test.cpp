// A caller waits until a store has seen what it needs; one that has left is forgotten.
#include "base/catch_up.hpp"

#include <doctest/doctest.h>

#include <future>
#include <memory>

#include "base/strand.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

// A caller without a thread of its own.
struct Waiting {
  std::shared_ptr<std::promise<bool>> promise = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = promise->get_future();

  bool answered() const { return answer.wait_for(0s) == std::future_status::ready; }
};

TEST_SUITE("CatchUpWaiters") {
  TEST_CASE("a caller is answered by the first settlement at which its predicate holds") {
    CatchUpWaiters waiters;
    Waiting early, late;
    int revision = 1;
    waiters.add(early.promise, [&] { return revision >= 2; });
    waiters.add(late.promise, [&] { return revision >= 3; });
    CHECK_FALSE(early.answered());
    waiters.settle(true);
    CHECK_FALSE(early.answered());
    revision = 2;
    CHECK_FALSE(early.answered());
    waiters.settle(true);
    CHECK(early.answered());
    CHECK_FALSE(late.answered());
    revision = 3;
    waiters.settle(false);
    CHECK(early.answer.get());
    REQUIRE(late.answered());
    CHECK_FALSE(late.answer.get());
  }

  TEST_CASE("a caller that has been answered is not asked again") {
    CatchUpWaiters waiters;
    Waiting caller;
    int asked = 0;
    waiters.add(caller.promise, [&] { return ++asked > 0; });
    waiters.settle(true);
    waiters.settle(true);
    CHECK(asked == 1);
    CHECK(caller.answer.get());
  }

  TEST_CASE("a caller that has left is forgotten, and its predicate is not asked") {
    CatchUpWaiters waiters;
    const auto held = std::make_shared<int>(0);
    Waiting stays;
    {
      Waiting leaves;
      waiters.add(leaves.promise, [held] { return ++*held > 0; });
    }
    waiters.add(stays.promise, [] { return true; });
    waiters.settle(true);
    CHECK(*held == 0);
    CHECK(held.use_count() == 1);
    CHECK(stays.answered());
  }
}

TEST_SUITE("wait_for_catch_up") {
  TEST_CASE("a predicate that holds at once ends the wait") {
    osm::testing::ThreadExecutor executor(1);
    CatchUpWaiters waiters;
    Strand strand(executor);
    for (const bool answer : {true, false})
      CHECK(wait_for_catch_up(strand, 10s, [&](const CatchUpCaller& caller) {
              CHECK(strand.running_in_this_thread());
              waiters.add(caller, [] { return true; });
              waiters.settle(answer);
            }) == answer);
    strand.stop();
  }

  TEST_CASE("a later settlement ends the wait") {
    osm::testing::ThreadExecutor executor(1);
    CatchUpWaiters waiters;
    bool seen = false;
    Strand strand(executor);
    CHECK(wait_for_catch_up(strand, 10s, [&](const CatchUpCaller& caller) {
      waiters.add(caller, [&] { return seen; });
      waiters.settle(true);
      strand.post([&] {
        seen = true;
        waiters.settle(true);
      });
    }));
    strand.stop();
  }

  TEST_CASE("a caller that is not answered in time gets false, and has left then") {
    osm::testing::ManualClock clock;
    osm::testing::ManualExecutor executor(clock);
    CatchUpWaiters waiters;
    bool asked = false;
    CHECK_FALSE(wait_for_catch_up(executor, 1ms, [&](const CatchUpCaller& caller) {
      CHECK(caller.expired());
      waiters.add(caller, [&] { return asked = true; });
    }));
    executor.run_until_idle();  // the strand is late
    waiters.settle(true);
    CHECK_FALSE(asked);
  }
}

}  // namespace
