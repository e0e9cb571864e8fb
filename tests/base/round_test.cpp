// Wakes merge, a turn names its pause, and `forget` takes the turns of a round that may not run.
#include "base/round.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <future>
#include <vector>

#include "osm/testing/manual_executor.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

// Each number makes the longest jitter of a second.
class LongestRng final : public Rng {
 public:
  std::uint64_t next() override {
    ++drawn;
    return 250'000'000;
  }
  int drawn = 0;
};

struct Fixture {
  Round make(std::chrono::nanoseconds collect = 0ns) {
    return Round(strand, rng,
                 {.turn =
                      [this] {
                        turns.push_back(now());
                        if (in_turn) in_turn();
                        return pause;
                      },
                  .may_run = [this] { return may_run; },
                  .forget = [this] { forgotten.push_back(now()); },
                  .ask_again = ask_again,
                  .collect = [collect] { return collect; }});
  }
  long now() const {
    const auto at = clock.steady_now() - start;
    return std::chrono::duration_cast<std::chrono::milliseconds>(at).count();
  }

  using Times = std::vector<long>;  // in ms since the start
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  Strand strand{executor};
  LongestRng rng;
  const SteadyTime start = clock.steady_now();
  Pause pause, ask_again;
  bool may_run = true;
  std::function<void()> in_turn;
  Times turns, forgotten;
};

TEST_SUITE("Round") {
  TEST_CASE_FIXTURE(Fixture, "nothing runs before the first wake") {
    Round round = make();
    executor.run_for(1h);
    CHECK(turns.empty());
    CHECK(executor.timers() == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "wakes before a turn begins are for one turn") {
    Round round = make();
    for (int i = 0; i < 5; ++i) round.wake();
    executor.run_for(1h);
    CHECK(turns == Times{0});
    round.wake();
    executor.run_for(1h);
    CHECK(turns.size() == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a wake inside a turn is for the next one") {
    Round round = make();
    in_turn = [&] {
      if (turns.size() < 3) round.wake();
    };
    round.wake();
    executor.run_for(1h);
    CHECK(turns == Times{0, 0, 0});
  }

  TEST_CASE_FIXTURE(Fixture, "wakes are collected from the first one on") {
    Round round = make(1s);
    for (int i = 0; i < 20; ++i) {
      round.wake();  // the 10th comes before the turn of the first one, the 11th after it
      executor.run_for(105ms);
    }
    CHECK(turns == Times{1000, 2050});
  }

  TEST_CASE_FIXTURE(Fixture, "a turn names the pause until the next one") {
    Round round = make();
    pause = {3s};
    round.wake();
    executor.run_for(7s);
    CHECK(turns == Times{0, 3000, 6000});
    pause = {};
    executor.run_for(1h);
    CHECK(turns == Times{0, 3000, 6000, 9000});
    CHECK(rng.drawn == 0);
  }

  TEST_CASE_FIXTURE(Fixture, "jitter adds up to a quarter and draws one number for each pause") {
    Round round = make();
    pause = {.length = 1s, .jitter = true};
    round.wake();
    executor.run_for(3s);
    CHECK(turns == Times{0, 1250, 2500});
    CHECK(rng.drawn == 3);
    pause = {.length = std::nullopt, .jitter = true};
    executor.run_for(1h);
    CHECK(rng.drawn == 3);
  }

  TEST_CASE_FIXTURE(Fixture, "a wake takes the place of the rest of a pause") {
    Round round = make();
    pause = {3s};
    round.wake();
    executor.run_for(1s);
    round.wake();
    executor.run_for(4s);
    CHECK(turns == Times{0, 1000, 4000});
    CHECK(executor.timers() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a wake does not delay the end of a pause as short as collecting") {
    Round round = make(1s);
    pause = {1s};
    round.rest({1s});
    for (int i = 0; i < 5; ++i) {
      executor.run_for(700ms);
      round.wake();
    }
    CHECK(turns == Times{1000, 2000, 3000});
    pause = {};
    executor.run_for(1h);
    CHECK(turns == Times{1000, 2000, 3000, 4000});
    pause = {1100ms};
    round.wake();
    executor.run_for(2s);  // the pause begins in one second
    round.wake();
    executor.run_for(1s);
    CHECK(turns.size() == 6);
    CHECK(turns.back() - turns[4] == 2000);
  }

  TEST_CASE_FIXTURE(Fixture, "a wake when the pause is over is for the turn that begins anyway") {
    Round round = make();
    pause = {3s};
    round.wake();
    executor.run_until_idle();
    clock.advance(3s);
    REQUIRE(executor.run_one());  // the timer posts its task to the strand
    round.wake();
    executor.run_until_idle();
    CHECK(turns == Times{0, 3000});
  }

  TEST_CASE_FIXTURE(Fixture, "a round can begin with a pause") {
    Round round = make();
    round.rest({.length = 1s, .jitter = true});
    executor.run_for(1h);
    CHECK(turns == Times{1250});
    CHECK(rng.drawn == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a pause from outside delays no turn that a wake has called for") {
    Round round = make(1s);
    round.wake();
    round.rest({5s});
    executor.run_for(500ms);
    round.rest({5s});
    executor.run_for(1h);
    CHECK(turns == Times{1000});
  }

  TEST_CASE_FIXTURE(Fixture, "a round that may not run forgets in place of its turns") {
    ask_again = {.length = 8s, .jitter = true};
    Round round = make();
    pause = {1s};
    may_run = false;
    round.wake();
    executor.run_for(15s);
    CHECK(turns.empty());
    CHECK(forgotten == Times{0, 8250});
    CHECK(rng.drawn == 2);
    may_run = true;
    executor.run_for(2s);
    CHECK(turns == Times{16500});
    may_run = false;
    round.wake();
    executor.run_for(8s);
    CHECK(turns == Times{16500});
    CHECK(forgotten == Times{0, 8250, 17000});
  }

  TEST_CASE_FIXTURE(Fixture, "a round that may not run and names no pause is woken") {
    Round round = make();
    pause = {1s};
    may_run = false;
    round.wake();
    executor.run_for(1h);
    CHECK(forgotten == Times{0});
    may_run = true;
    executor.run_for(1h);
    CHECK(turns.empty());
    round.wake();
    executor.run_until_idle();
    CHECK(turns.size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "without may_run it always runs, without forget it waits") {
    bool may = false;
    int ran = 0;
    const auto turn = [&] {
      ++ran;
      return Pause{1s};
    };
    Round always(strand, rng, {.turn = turn});
    always.wake();
    executor.run_for(2500ms);
    CHECK(ran == 3);
    Round sometimes(strand, rng, {.turn = turn, .may_run = [&] { return may; }});
    always.rest({1h});
    sometimes.wake();
    executor.run_for(1min);
    CHECK(ran == 3);
    may = true;
    sometimes.wake();
    executor.run_for(500ms);
    CHECK(ran == 4);
  }

  TEST_CASE_FIXTURE(Fixture, "the strand may be stopped inside a turn") {
    Round round = make();
    pause = {1s};
    in_turn = [&] {
      round.wake();
      strand.stop();
    };
    round.wake();
    executor.run_for(1h);
    round.wake();
    round.rest({1s});
    executor.run_for(1h);
    CHECK(turns == Times{0});
  }

  TEST_CASE("no turn begins after the strand is stopped, and a wake during a turn is not lost") {
    testing::ThreadExecutor executor(4);
    LongestRng rng;
    for (int i = 0; i < 200; ++i) {
      Strand strand(executor);
      std::atomic<int> value{0}, seen{0}, turns{0};
      std::promise<void> done;
      Round round(strand, rng, {.turn = [&] {
                    ++turns;
                    if (seen.exchange(value) < 50 && seen == 50) done.set_value();
                    return Pause{};
                  }});
      for (int n = 0; n < 50; ++n) {
        ++value;
        round.wake();
      }
      REQUIRE(done.get_future().wait_for(10s) == std::future_status::ready);
      strand.stop();
      const int before = turns;
      round.wake();
      CHECK(turns == before);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a failure is the first one until a success") {
    Round round = make();
    const Status failed = Error{ErrorCode::kUnavailable, "away"};
    CHECK_FALSE(round.first_failure({}));
    CHECK(round.first_failure(failed));
    CHECK_FALSE(round.first_failure(failed));
    CHECK_FALSE(round.first_failure({}));
    CHECK(round.first_failure(failed));
  }
}

}  // namespace
