// Streams end within their window, in no burst larger than stated.
#include "ads/pacer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using ads::Pacer;
using ads::StreamId;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kStep{1};

struct Rig {
  explicit Rig(std::uint64_t seed = 1) : rng(seed) {}

  void add(StreamId first, StreamId count, std::chrono::nanoseconds window) {
    for (StreamId id = first; id < first + count; ++id) pacer.add(id, "why", window);
  }
  // In steps, to know when each ended.
  void run_for(std::chrono::nanoseconds time) {
    for (std::chrono::nanoseconds gone{}; gone < time; gone += kStep) executor.run_for(kStep);
  }
  // The most that ended within half a turn, which is the shortest one.
  std::size_t largest_burst() const {
    std::size_t most = 0;
    for (auto from = ended_at.begin(); from != ended_at.end(); ++from) {
      const auto end = from->first + Pacer::kTurn / 2;
      std::size_t burst = 0;
      for (auto at = from; at != ended_at.end() && at->first < end; ++at) burst += at->second;
      most = std::max(most, burst);
    }
    return most;
  }

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng;
  std::vector<StreamId> ended;
  std::map<SteadyTime, std::size_t> ended_at;
  Pacer pacer{executor, rng, [this](StreamId id, const std::string& why) {
                CHECK(why == "why");
                ended.push_back(id);
                ++ended_at[clock.steady_now()];
              }};
};

TEST_SUITE("ads::Pacer") {
  TEST_CASE("a few streams end at once") {
    Rig rig;
    rig.add(1, Pacer::kBurst, seconds(5));
    CHECK(rig.ended.size() == Pacer::kBurst);
    CHECK(rig.pacer.size() == 0);
  }

  TEST_CASE("N streams end within their window, in no burst larger than stated") {
    struct Case {
      StreamId streams;
      milliseconds window;
      std::size_t burst;
    };
    for (const Case& each : {Case{100, seconds(5), Pacer::kBurst}, Case{1000, seconds(12), 10},
                             Case{1000, seconds(5), 20}, Case{10'000, seconds(12), 84},
                             Case{50, milliseconds(100), 50}}) {
      Rig rig;
      rig.add(1, each.streams, each.window);
      rig.run_for(each.window);
      CHECK(rig.ended.size() == each.streams);
      CHECK(rig.largest_burst() <= each.burst);
      // The oldest go first, each once.
      std::vector<StreamId> all(each.streams);
      std::iota(all.begin(), all.end(), 1);
      CHECK(rig.ended == all);
    }
  }

  TEST_CASE("the pace is another one on each replica") {
    Rig one(1), other(2);
    for (Rig* rig : {&one, &other}) {
      rig->add(1, 200, seconds(5));
      rig->run_for(seconds(5));
    }
    CHECK(one.ended_at != other.ended_at);
  }

  TEST_CASE("streams that come one after another in one moment are paced as well") {
    Rig rig;
    for (StreamId id = 1; id <= 40; ++id) rig.add(id, 1, seconds(5));
    CHECK(rig.ended.size() == Pacer::kBurst);
    rig.run_for(seconds(1));
    CHECK(rig.ended.size() == 40);
    CHECK(rig.largest_burst() <= Pacer::kBurst);
    // After a pause the next ones end at once.
    rig.add(41, 1, seconds(5));
    CHECK(rig.ended.size() == 41);
  }

  TEST_CASE("a stream that ended otherwise is not ended again, nor one that is added twice") {
    Rig rig;
    rig.add(1, 20, seconds(5));
    rig.pacer.forget(15);
    rig.add(12, 3, seconds(5));
    rig.run_for(seconds(1));
    CHECK(rig.ended.size() == 19);
    CHECK(std::find(rig.ended.begin(), rig.ended.end(), 15) == rig.ended.end());
  }

  TEST_CASE("a shorter window hurries those that wait") {
    Rig rig;
    rig.add(1, 1000, seconds(30));
    rig.run_for(seconds(1));
    REQUIRE(rig.ended.size() < 300);
    rig.add(1001, 1, seconds(2));
    rig.run_for(seconds(2));
    CHECK(rig.ended.size() == 1001);
  }
}

}  // namespace
