// A machine that leaves is drained once, and learns which proxies have acknowledged it.
#include "control_plane/machine_drains.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace {

using namespace osm;

const ProxyId kMachineId{"11111111-1111-4111-8111-111111111111"};
const WorkloadName kMachine{"shop", "web-1"};

struct NoNumbers final : Rng {
  std::uint64_t next() override { return 0; }
};

// Remembers who was drained.
class Remembered final : public DrainedMachines {
 public:
  bool has_synced() const override { return true; }
  bool contains(const WorkloadName& machine, const ProxyId& proxy) const override {
    return drained == std::pair(machine, proxy);
  }
  Status drain(const WorkloadName& machine, const ProxyId& proxy) override {
    ++calls;
    if (!failure.ok()) return failure;
    drained = {machine, proxy};
    return {};
  }
  Status take_back(const WorkloadName&) override { return {}; }
  void follow(const WorkloadProvider*, std::function<bool()>) override {}
  Subscription subscribe(std::function<void(const std::vector<WorkloadName>&)>) override {
    return {};
  }

  std::optional<std::pair<WorkloadName, ProxyId>> drained;
  Status failure;
  int calls = 0;
};

struct DrainRig {
  ads::DrainAnswer ask() {
    std::optional<ads::DrainAnswer> answer;
    Workload workload{kMachine, kMachineId, {"shop", "web"}, "10.0.0.1", {}, {}};
    drains.answer(std::make_shared<const model::WorkloadEntry>(
                      model::WorkloadEntry{{"shop", kMachineId}, std::move(workload)}),
                  [&](ads::DrainAnswer told) { answer = std::move(told); });
    CHECK_FALSE(answer);  // the record may make it wait, and the strand of proxies must not
    executor.run_until_idle();
    REQUIRE(answer);
    return *std::move(answer);
  }

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  NoNumbers rng;
  Remembered drained;
  ObjectStatus status;
  std::vector<ObjectKey> asked;
  control_plane::MachineDrains drains{{.drained = drained,
                                       .runtime = {executor, executor, clock, rng, log, metrics},
                                       .status = [this](const ObjectKey& object) {
                                         asked.push_back(object);
                                         return Result<ObjectStatus>(status);
                                       }}};
};

}  // namespace

TEST_SUITE("control_plane::MachineDrains") {
  TEST_CASE("the machine of the certificate is drained once, and each answer tells how far it is") {
    DrainRig rig;
    rig.status.phase = ObjectPhase::kPending;
    rig.status.concerned = 9;
    rig.status.applied = 2;
    for (int i = 0; i < 7; ++i)
      rig.status.lagging.push_back({kMachineId, {"shop", "api-" + std::to_string(i)}, false, {}});
    auto answer = rig.ask();
    REQUIRE(answer.ok());
    CHECK(rig.drained.contains(kMachine, kMachineId));
    CHECK_FALSE(answer->applied());
    CHECK(answer->concerned() == 9);
    CHECK(answer->acknowledged() == 2);
    REQUIRE(answer->behind_size() == 5);
    CHECK(answer->behind(0) == "shop/api-0");
    CHECK(rig.asked == std::vector<ObjectKey>{{kinds::kVirtualMachine, "shop", "web-1"}});

    rig.status.phase = ObjectPhase::kApplied;
    rig.status.lagging.clear();
    answer = rig.ask();
    REQUIRE(answer.ok());
    CHECK(answer->applied());
    CHECK(rig.drained.calls == 1);
    CHECK(rig.log.count("machine drained") == 1);
  }

  TEST_CASE("a machine that cannot be recorded is told why, and no status") {
    DrainRig rig;
    rig.drained.failure = Error{ErrorCode::kUnavailable, "the record is away"};
    const auto answer = rig.ask();
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::kUnavailable);
    CHECK(rig.asked.empty());
  }
}
