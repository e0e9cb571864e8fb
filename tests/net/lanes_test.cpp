// Lanes share threads, and none waits for another one: threads start when a task needs one and end
// when none does, a lane ends in order, and one that hangs is named.
#include "osm/runtime/lanes.hpp"

#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/strand.hpp"
#include "base/watched_executor.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace std::chrono_literals;
using net::Lane;
using net::LaneOptions;
using net::Lanes;
using testing::wait_until;

namespace {

// Tasks that hold their thread until they are released.
class Stuck {
 public:
  ~Stuck() { release(); }

  void post_to(Executor& lane) {
    lane.post([state = state_] { hold_in(*state); });
  }
  void hold() {
    const auto state = state_;
    hold_in(*state);
  }
  void release() {
    const std::lock_guard lock(state_->mutex);
    state_->released = true;
    state_->changed.notify_all();
  }
  int held() const {
    const std::lock_guard lock(state_->mutex);
    return state_->held;
  }
  int ended() const {
    const std::lock_guard lock(state_->mutex);
    return state_->ended;
  }
  bool hold_in_time(int tasks) const {
    return wait_until([&] { return held() == tasks; });
  }

 private:
  // Tasks share it: they may go on for a moment after the last look at it.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int held = 0;
    int ended = 0;
    bool released = false;
  };

  static void hold_in(State& state) {
    std::unique_lock lock(state.mutex);
    ++state.held;
    state.changed.wait(lock, [&state] { return state.released; });
    ++state.ended;
  }

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

int lane_threads() {
  int number = 0;
  std::error_code gone;  // a thread may end meanwhile
  for (std::filesystem::directory_iterator at("/proc/self/task", gone), end; !gone && at != end;
       at.increment(gone)) {
    std::string name;
    std::getline(std::ifstream(at->path() / "comm"), name);
    number += name == "osm-lane" ? 1 : 0;
  }
  return number;
}

// No thread can be started: its stack would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    REQUIRE(::pthread_getattr_default_np(&usual_) == 0);
    REQUIRE(::pthread_getattr_default_np(&huge) == 0);
    REQUIRE(::pthread_attr_setstacksize(&huge, std::size_t{1} << 62) == 0);
    REQUIRE(::pthread_setattr_default_np(&huge) == 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&usual_);
    ::pthread_attr_destroy(&usual_);
  }
  NoThreads(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

bool runs_in_time(Executor& lane) {
  const auto ran = std::make_shared<std::promise<void>>();
  lane.post([ran] { ran->set_value(); });
  return ran->get_future().wait_for(10s) == std::future_status::ready;
}

// A real clock, so that nothing hangs.
struct ManyLanes {
  explicit ManyLanes(std::chrono::milliseconds rest = Lanes::kRest) : pool(clock, rest) {
    for (const unsigned bound : {1, 4, 2})
      lanes.push_back(std::make_unique<Lane>(
          pool, LaneOptions{.name = "lane of " + std::to_string(bound), .bound = bound}));
  }
  void fill(std::size_t lane, Stuck& stuck) {
    for (int i = 0; i < kBounds[lane]; ++i) stuck.post_to(*lanes[lane]);
  }

  static constexpr int kBounds[] = {1, 4, 2};
  static constexpr int kSum = 7;
  SystemClock clock;
  Lanes pool;
  std::vector<std::unique_ptr<Lane>> lanes;
};

TEST_SUITE("net::Lanes") {
  TEST_CASE("while a lane is full and stuck, a task of each other lane starts") {
    for (std::size_t full = 0; full < 3; ++full) {
      ManyLanes many;
      Stuck stuck;
      many.fill(full, stuck);
      for (int i = 0; i < 20; ++i) many.lanes[full]->post([] {});  // its queue
      REQUIRE(stuck.hold_in_time(ManyLanes::kBounds[full]));
      for (std::size_t other = 0; other < 3; ++other)
        if (other != full) CHECK(runs_in_time(*many.lanes[other]));
      CHECK(stuck.ended() == 0);
      stuck.release();
      CHECK(runs_in_time(*many.lanes[full]));
    }
  }

  TEST_CASE("while all others are full and stuck, a task of a lane starts") {
    for (std::size_t free = 0; free < 3; ++free) {
      ManyLanes many;
      Stuck stuck;
      int held = 0;
      for (std::size_t full = 0; full < 3; ++full)
        if (full != free) many.fill(full, stuck), held += ManyLanes::kBounds[full];
      REQUIRE(stuck.hold_in_time(held));
      CHECK(runs_in_time(*many.lanes[free]));
      Stuck last;
      many.fill(free, last);  // all of them
      CHECK(last.hold_in_time(ManyLanes::kBounds[free]));
      last.release();
      stuck.release();
    }
  }

  TEST_CASE("a lane runs as many tasks as its bound, and one of bound 1 keeps their order") {
    const SystemClock clock;
    Lanes lanes(clock);
    Lane lane(lanes, {.name = "three", .bound = 3});
    std::atomic<int> running = 0, most = 0, ran = 0;
    for (int i = 0; i < 300; ++i)
      lane.post([&] {
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        std::this_thread::yield();
        --running;
        ++ran;
      });
    CHECK(wait_until([&] { return ran == 300; }));
    CHECK(most <= 3);
    Stuck stuck;
    for (int i = 0; i < 4; ++i) stuck.post_to(lane);
    REQUIRE(stuck.hold_in_time(3));
    Lane other(lanes, {.name = "other"});
    CHECK(runs_in_time(other));
    CHECK(stuck.held() == 3);
    stuck.release();
    CHECK(stuck.hold_in_time(4));

    Lane ordered(lanes, {.name = "one"});
    std::vector<int> order;
    for (int i = 0; i < 100; ++i) ordered.post([&order, i] { order.push_back(i); });
    ordered.join();
    CHECK(order.size() == 100);
    CHECK(std::is_sorted(order.begin(), order.end()));
  }

  TEST_CASE("threads start when tasks need them, and end when they have had no work for a while") {
    ManyLanes many(100ms);
    CHECK(wait_until([] { return lane_threads() == 0; }));
    for (int round = 0; round < 2; ++round) {
      Stuck stuck;
      for (std::size_t lane = 0; lane < 3; ++lane) many.fill(lane, stuck);
      REQUIRE(stuck.hold_in_time(ManyLanes::kSum));
      CHECK(lane_threads() == ManyLanes::kSum);
      stuck.release();
      CHECK(wait_until([] { return lane_threads() == 0; }));
    }
  }

  TEST_CASE("a little work keeps one thread, and not each of them in turn") {
    ManyLanes many(500ms);
    Stuck stuck;
    for (std::size_t lane = 0; lane < 3; ++lane) many.fill(lane, stuck);
    REQUIRE(stuck.hold_in_time(ManyLanes::kSum));
    stuck.release();
    CHECK(wait_until([&] {
      std::this_thread::sleep_for(10ms);
      return runs_in_time(*many.lanes[1]) && lane_threads() == 1;
    }));
  }

  TEST_CASE("idle threads of one lane run the tasks of another one") {
    const SystemClock clock;
    Lanes lanes(clock, 1h);
    std::set<std::thread::id> threads;
    std::mutex mutex;
    for (int i = 0; i < 50; ++i) {
      Lane lane(lanes, {.name = "lane"});
      lane.post([&] {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
      });
      lane.join();
    }
    CHECK(threads.size() == 1);  // join() returns when its thread is idle
  }

  TEST_CASE("a task whose thread cannot be started runs later") {
    const SystemClock clock;
    testing::CapturingLog log;
    Lanes lanes(clock, 1ms, &log);
    Lane lane(lanes, {.name = "lane", .bound = 2});
    std::atomic<int> ran = 0;
    {
      const NoThreads none;
      lane.post([&] { ++ran; });
      lane.post([&] { ++ran; });
      Lane ends(lanes, {.name = "ends"});
      ends.post([&] { ran += 100; });  // it never gets a thread
      ends.join();
      CHECK(ran == 0);
      CHECK(log.lines().size() == 1);
    }
    CHECK(wait_until([&] { return ran == 2; }));
  }

  TEST_CASE("a watched lane that hangs is named until it goes on") {
    testing::ManualClock clock;
    Lanes lanes(clock);
    Lane watched(lanes, {.name = "the work", .bound = 2, .watched = true});
    Lane other(lanes, {.name = "other work"});
    {
      Stuck stuck;
      stuck.post_to(watched);
      stuck.post_to(other);
      REQUIRE(stuck.hold_in_time(2));
      clock.advance(119s);
      CHECK(lanes.hanging().empty());
      clock.advance(1s);
      CHECK(lanes.hanging() ==
            std::vector<std::string>{"the work: nothing has happened for 120 s"});
      stuck.release();
      CHECK(wait_until([&] { return lanes.hanging().empty(); }));
      other.join();
      watched.join();
    }
    Stuck stuck;
    auto gone = std::make_unique<Lane>(lanes, LaneOptions{.name = "gone", .watched = true});
    stuck.post_to(*gone);
    REQUIRE(stuck.hold_in_time(1));
    clock.advance(120s);
    CHECK(lanes.hanging().size() == 1);
    stuck.release();
    gone = nullptr;
    CHECK(lanes.hanging().empty());
  }

  TEST_CASE("a task that records metrics of an OwnRuntime goes on") {
    testing::ManualClock clock;
    const OwnRuntime own;
    WatchedExecutor watched("the work", own.blocking, clock);
    std::promise<std::vector<bool>> alive;
    watched.post([&] {
      std::vector<bool> seen;
      for (int i = 0; i < 3; ++i) {
        clock.advance(119s);
        seen.push_back(watched.check().ok());
        own.metrics.add(Counter{"calls_total", ""}, {}, 1);
      }
      clock.advance(120s);
      seen.push_back(watched.check().ok());
      alive.set_value(seen);
    });
    CHECK(alive.get_future().get() == std::vector<bool>{true, true, true, false});
  }

  TEST_CASE("the tasks that wait are counted") {
    const SystemClock clock;
    testing::CapturingMetrics metrics;
    const auto waiting = [&] {
      return metrics.value("osm_queue_length", {{"queue", "admissions"}});
    };
    Lanes lanes(clock);
    Lane lane(lanes, {.name = "admissions", .bound = 2, .metrics = &metrics});
    CHECK(waiting() == 0);
    Stuck stuck;
    for (int i = 0; i < 5; ++i) stuck.post_to(lane);
    CHECK(wait_until([&] { return waiting() == 3; }));
    stuck.release();
    CHECK(wait_until([&] { return waiting() == 0; }));
    lane.join();
  }
}

TEST_SUITE("net::Lane") {
  TEST_CASE("a thread belongs to a lane while it runs a task of it") {
    const SystemClock clock;
    Lanes lanes(clock);
    Lane one(lanes, {.name = "one", .watched = true}), two(lanes, {.name = "two"});
    CHECK_FALSE(one.running_in_this_thread());
    for (int i = 0; i < 2; ++i) {  // on the same thread
      std::promise<bool> in_one, in_two;
      one.post([&] {
        in_one.set_value(one.running_in_this_thread());
        in_two.set_value(two.running_in_this_thread());
      });
      CHECK(in_one.get_future().get());
      CHECK_FALSE(in_two.get_future().get());
      std::promise<bool> other;
      two.post([&] { other.set_value(one.running_in_this_thread()); });
      CHECK_FALSE(other.get_future().get());
    }
  }

  TEST_CASE("the end runs what was posted and waits for it, also for its captures") {
    struct Capture {
      ~Capture() {
        std::this_thread::sleep_for(20ms);
        ++*died;
      }
      std::atomic<int>* died;
    };
    const SystemClock clock;
    Lanes lanes(clock);
    std::atomic<int> ran = 0, died = 0;
    {
      Lane lane(lanes, {.name = "lane"});
      for (int i = 0; i < 3; ++i)
        lane.post([&ran, capture = std::make_shared<Capture>(&died)] { ++ran; });
    }
    CHECK(ran == 3);
    CHECK(died == 3);
  }

  TEST_CASE("the end waits for a running task, also if it takes longer than a second") {
    const SystemClock clock;
    Lanes lanes(clock);
    std::atomic<bool> ended = false;
    std::promise<void> begun;
    {
      Lane lane(lanes, {.name = "lane"});
      lane.post([&] {
        begun.set_value();
        std::this_thread::sleep_for(1500ms);
        ended = true;
      });
      begun.get_future().wait();
    }
    CHECK(ended);
  }

  TEST_CASE("after join() nothing runs, and what tasks capture dies with the lane") {
    const SystemClock clock;
    Lanes lanes(clock);
    auto lane = std::make_unique<Lane>(lanes, LaneOptions{.name = "lane", .bound = 2});
    lane->join();
    lane->join();
    std::atomic<bool> ran = false;
    auto capture = std::make_shared<int>(1);
    lane->post([&ran, capture] { ran = true; });
    const Subscription timer = lane->post_after(0ms, [&ran, capture] { ran = true; });
    // Another lane's timer of the same time: this one's has fired, too.
    Lane other(lanes, {.name = "other"});
    std::promise<void> later;
    const Subscription after = other.post_after(1ms, [&] { later.set_value(); });
    later.get_future().wait();
    CHECK(capture.use_count() == 3);
    // A capture that dies with the lane may post to it.
    Lane& ending = *lane;
    bool posted = false;
    lane->post([poster = std::shared_ptr<void>(&ran, [&](void*) {
                  ending.post([&] { ran = true; });
                  posted = true;
                })] {});
    CHECK_FALSE(posted);
    lane = nullptr;
    CHECK(posted);
    CHECK(capture.use_count() == 2);  // the timer's handle has the other one
    CHECK_FALSE(ran);
  }

  TEST_CASE("tasks that post to each other do not keep a lane from ending") {
    const SystemClock clock;
    Lanes lanes(clock);
    std::atomic<int> rounds = 0;
    std::function<void()> again;
    {
      Lane lane(lanes, {.name = "lane", .bound = 2});
      again = [&] {
        ++rounds;
        lane.post(again);
      };
      lane.post(again);
      lane.post(again);
      CHECK(wait_until([&] { return rounds > 100; }));
    }
    const int at_the_end = rounds;
    CHECK(runs_in_time(*std::make_unique<Lane>(lanes, LaneOptions{.name = "later"})));
    CHECK(rounds == at_the_end);
  }

  TEST_CASE("a lane is destroyed in a task of another one, and lanes in any order") {
    const SystemClock clock;
    Lanes lanes(clock);
    std::atomic<int> ran = 0;
    std::vector<std::unique_ptr<Lane>> members;
    for (int i = 0; i < 8; ++i) {
      members.push_back(std::make_unique<Lane>(
          lanes, LaneOptions{.name = "member", .bound = 2, .watched = i % 2 == 0}));
      for (int task = 0; task < 10; ++task) members.back()->post([&ran] { ++ran; });
    }
    {
      Lane last(lanes, {.name = "last"});
      for (const std::size_t i : {3, 0, 7, 5})
        last.post([lane = std::shared_ptr<Lane>(std::move(members[i]))] {});
    }
    CHECK(lanes.hanging().empty());
    for (const std::size_t i : {6, 1, 2, 4}) members[i] = nullptr;
    CHECK(ran == 80);
  }

  TEST_CASE("a timer runs once after its delay, also while other lanes are stuck") {
    ManyLanes many;
    Stuck stuck;
    many.fill(0, stuck);
    many.fill(1, stuck);
    REQUIRE(stuck.hold_in_time(5));
    std::atomic<int> fired = 0;
    const auto start = std::chrono::steady_clock::now();
    const Subscription timer = many.lanes[2]->post_after(20ms, [&] { ++fired; });
    CHECK(wait_until([&] { return fired == 1; }));
    CHECK(std::chrono::steady_clock::now() - start >= 20ms);
    stuck.release();
    many.lanes[2]->join();
    CHECK(fired == 1);
  }

  TEST_CASE("a timer that waits for its turn does not run after its handle is destroyed") {
    const SystemClock clock;
    Lanes lanes(clock);
    Lane lane(lanes, {.name = "lane"}), other(lanes, {.name = "other"});
    Stuck stuck;
    stuck.post_to(lane);
    REQUIRE(stuck.hold_in_time(1));
    std::atomic<bool> ran = false;
    auto capture = std::make_shared<int>(1);
    Subscription timer = lane.post_after(0ms, [&ran, capture] { ran = true; });
    std::promise<void> later;
    const Subscription after = other.post_after(1ms, [&] { later.set_value(); });
    later.get_future().wait();
    timer.reset();
    CHECK(capture.use_count() == 1);
    stuck.release();
    lane.join();
    CHECK_FALSE(ran);
  }

  TEST_CASE("a timer's handle waits for its task, but not inside it") {
    const SystemClock clock;
    Lanes lanes(clock);
    Lane lane(lanes, {.name = "lane", .bound = 2});
    Stuck stuck;
    Subscription timer = lane.post_after(0ms, [&] { stuck.hold(); });
    REQUIRE(stuck.hold_in_time(1));
    std::thread releaser([&] {
      std::this_thread::sleep_for(50ms);
      stuck.release();
    });
    timer.reset();
    CHECK(stuck.ended() == 1);
    releaser.join();

    std::promise<void> assigned, done;
    Subscription own = lane.post_after(0ms, [&] {
      assigned.get_future().wait();
      own.reset();
      done.set_value();
    });
    assigned.set_value();
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
  }

  TEST_CASE("a strand on a lane that ends first drops its tasks") {
    const SystemClock clock;
    Lanes lanes(clock);
    auto lane = std::make_unique<Lane>(lanes, LaneOptions{.name = "lane", .bound = 2});
    Strand strand(*lane);
    std::atomic<int> ran = 0;
    for (int i = 0; i < 200; ++i) strand.post([&ran] { ++ran; });
    lane->join();
    CHECK(ran == 200);
    strand.post([&ran] { ++ran; });
    strand.stop();
    lane = nullptr;
    CHECK(ran == 200);
  }
}

}  // namespace
