// Subscribers are called in order until they unsubscribe, also across threads; snapshots are
// published in order.
#include "osm/notifier.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "base/snapshot_cell.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

TEST_SUITE("Notifier") {
  TEST_CASE("subscribers are called in the order they came, until their handle dies") {
    Notifier<int> notifier;
    std::string trace;
    Subscription a = notifier.subscribe([&](int n) { trace += 'a' + std::to_string(n); });
    {
      Subscription b = notifier.subscribe([&](int n) { trace += 'b' + std::to_string(n); });
      notifier.notify(1);
    }
    notifier.notify(2);
    CHECK(trace == "a1b1a2");
    a.reset();
    notifier.notify(3);
    CHECK(trace == "a1b1a2");
  }

  TEST_CASE("unsubscribing from another thread waits for the running callback") {
    Notifier<> notifier;
    std::promise<void> started;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription subscription = notifier.subscribe([&] {
      started.set_value();
      release.get_future().wait();
      finished = true;
    });
    std::thread notifying([&] { notifier.notify(); });
    started.get_future().wait();
    std::atomic<bool> unsubscribing{false};
    std::thread releasing([&] {
      while (!unsubscribing) std::this_thread::yield();
      release.set_value();
    });
    unsubscribing = true;
    subscription.reset();
    CHECK(finished);
    notifying.join();
    releasing.join();
  }

  TEST_CASE("unsubscribing inside the own callback does not wait, and it is not called again") {
    Notifier<> notifier;
    int calls = 0;
    std::optional<Subscription> subscription;
    subscription = notifier.subscribe([&] {
      ++calls;
      subscription.reset();
    });
    notifier.notify();
    notifier.notify();
    CHECK(calls == 1);
  }

  TEST_CASE("a callback may end the subscription that comes after it in the same round") {
    Notifier<> notifier;
    int second_calls = 0;
    Subscription second;
    Subscription first = notifier.subscribe([&] { second.reset(); });
    second = notifier.subscribe([&] { ++second_calls; });
    notifier.notify();
    CHECK(second_calls == 0);
  }

  TEST_CASE("a callback may subscribe another, which is called from the next round on") {
    Notifier<> notifier;
    int late_calls = 0;
    Subscription late;
    Subscription first = notifier.subscribe([&] {
      if (!late) late = notifier.subscribe([&] { ++late_calls; });
    });
    notifier.notify();
    CHECK(late_calls == 0);
    notifier.notify();
    CHECK(late_calls == 1);
  }

  TEST_CASE("a callback that notifies again is still waited for after the inner round") {
    Notifier<int> notifier;
    std::promise<void> inner_done;
    std::promise<void> release;
    std::atomic<bool> finished{false};
    Subscription subscription = notifier.subscribe([&](int depth) {
      if (depth > 0) {
        notifier.notify(depth - 1);
        inner_done.set_value();
        release.get_future().wait();
        finished = true;
      }
    });
    std::thread notifying([&] { notifier.notify(1); });
    inner_done.get_future().wait();
    std::thread releasing([&] { release.set_value(); });
    subscription.reset();
    CHECK(finished);
    notifying.join();
    releasing.join();
  }

  TEST_CASE("a callback's captures are destroyed with its handle") {
    Notifier<> notifier;
    auto captured = std::make_shared<int>(1);
    Subscription subscription = notifier.subscribe([captured] {});
    CHECK(captured.use_count() == 2);
    subscription.reset();
    CHECK(captured.use_count() == 1);
  }

  TEST_CASE("a handle may outlive its notifier") {
    auto notifier = std::make_unique<Notifier<>>();
    Subscription subscription = notifier->subscribe([] {});
    notifier.reset();
    subscription.reset();
  }

  TEST_CASE("subscribing, notifying and unsubscribing on many threads leaves no call behind") {
    Notifier<> notifier;
    std::atomic<bool> stop{false};
    std::thread notifying([&] {
      while (!stop) notifier.notify();
    });
    for (int i = 0; i < 2000; ++i) {
      auto alive = std::make_unique<std::atomic<bool>>(true);
      bool called_after_death = false;
      Subscription subscription =
          notifier.subscribe([&, flag = alive.get()] { called_after_death |= !*flag; });
      subscription.reset();
      *alive = false;
      REQUIRE_FALSE(called_after_death);
    }
    stop = true;
    notifying.join();
  }
}

TEST_SUITE("SnapshotCell") {
  TEST_CASE("the cell is null before the first publish and then holds the newest value") {
    SnapshotCell<int> cell;
    CHECK(cell.load() == nullptr);
    cell.publish(std::make_shared<const int>(1));
    cell.publish(std::make_shared<const int>(2));
    REQUIRE(cell.load());
    CHECK(*cell.load() == 2);
  }

  TEST_CASE("subscribers see each published value, and load() already returns it") {
    SnapshotCell<int> cell;
    std::string trace;
    Subscription subscription = cell.subscribe([&](const std::shared_ptr<const int>& value) {
      trace += std::to_string(*value);
      CHECK(cell.load() == value);
    });
    for (int i = 1; i <= 3; ++i) cell.publish(std::make_shared<const int>(i));
    CHECK(trace == "123");
  }

  TEST_CASE("readers on other threads see values in order while one writer publishes") {
    SnapshotCell<int> cell;
    std::atomic<bool> went_back{false};
    std::thread reader([&] {
      for (int last = 0; last < 1000;) {
        const auto value = cell.load();
        if (!value) continue;
        if (*value < last) went_back = true;
        last = *value;
      }
    });
    for (int i = 1; i <= 1000; ++i) cell.publish(std::make_shared<const int>(i));
    reader.join();
    CHECK_FALSE(went_back);
  }
}

}  // namespace
