// A class that lost its proxies while it waited for its build leaves nothing behind.
#include "ads/class_table.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;

namespace {

// Keeps its tasks until it is told to run them.
class HeldExecutor final : public Executor {
 public:
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  Subscription post_after(std::chrono::nanoseconds, std::function<void()>) override { return {}; }
  bool running_in_this_thread() const override { return false; }
  void run() {
    for (const auto& task : std::exchange(tasks_, {})) task();
  }

 private:
  std::vector<std::function<void()>> tasks_;
};

}  // namespace

TEST_SUITE("ads::ClassTable") {
  TEST_CASE("a class that is dropped while it waits for its build is not built") {
    HubRig rig;
    HeldExecutor held;
    Runtime runtime{held, held, rig.clock, rig.rng, rig.log, rig.metrics};
    std::size_t built = 0;
    ClassTable table({runtime, rig.executor, rig.secrets, nullptr,
                      [&](const ProxyClassPtr&) { ++built; },
                      [&](const ProxyClassPtr&) { ++built; }});
    const auto snapshot = rig.mesh.next();
    table.on_snapshot(snapshot, snapshot->changes, rig.clock.steady_now());
    std::vector<std::weak_ptr<ProxyClassEntry>> classes;
    for (std::size_t i = 0; i <= ClassTable::kParallelBuilds; ++i) {
      const model::WorkloadEntry entry =
          workload(kClientId, {"ns", "account-" + std::to_string(i)}, {});
      classes.push_back(table.join(translate::class_of(*snapshot, entry.workload), i));
    }
    CHECK(table.waiting() == 1);
    table.leave(classes.back().lock(), ClassTable::kParallelBuilds);
    rig.clock.advance(ClassTable::kIdle);
    table.drop_idle();
    CHECK(table.size() == ClassTable::kParallelBuilds);
    held.run();
    rig.executor.run_until_idle();
    held.run();
    rig.executor.run_until_idle();
    CHECK(built == ClassTable::kParallelBuilds);
    CHECK(table.waiting() == 0);
    CHECK(classes.back().expired());
    CHECK_FALSE(classes.front().expired());
  }
}
