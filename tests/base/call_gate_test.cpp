// Closing the gate of a callback refuses later calls and waits for those that run.
#include "osm/detail/call_gate.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

using namespace osm;

namespace {

TEST_SUITE("CallGate") {
  TEST_CASE("a closed gate refuses calls") {
    detail::CallGate gate;
    int calls = 0;
    CHECK(gate.run([&] { ++calls; }));
    CHECK(gate.close());
    CHECK_FALSE(gate.run([&] { ++calls; }));
    CHECK_FALSE(gate.enter());
    CHECK(calls == 1);
    CHECK(gate.close());
  }

  TEST_CASE("close waits for every call that runs on another thread") {
    detail::CallGate gate;
    std::promise<void> release;
    const auto released = release.get_future().share();
    std::atomic<int> inside{0};
    std::atomic<int> ended{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i)
      callers.emplace_back([&] {
        gate.run([&] {
          ++inside;
          released.wait();
          ++ended;
        });
      });
    while (inside < 3) std::this_thread::yield();
    std::thread releaser([&] { release.set_value(); });
    CHECK(gate.close());
    CHECK(ended == 3);
    for (std::thread& caller : callers) caller.join();
    releaser.join();
  }

  TEST_CASE("close inside a call does not wait, and the call learns of it when it leaves") {
    detail::CallGate gate;
    REQUIRE(gate.enter());
    REQUIRE(gate.enter());  // a call that calls again
    CHECK_FALSE(gate.close());
    CHECK_FALSE(gate.leave());
    CHECK_FALSE(gate.close());
    CHECK_FALSE(gate.leave());
    CHECK(gate.close());
  }
}

}  // namespace
