// A root that ends soon is a problem and a warning, an ended one an error.
#include <doctest/doctest.h>

#include <mutex>
#include <utility>

#include "lib/no_roots.hpp"
#include "lib/run.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"
#include "root_rotation/target.hpp"

using namespace osm;

namespace {

// A root rotation with one root, whose end the test sets.
struct OneRoot final : osm::testing::NoRoots {
  std::vector<RootStatus> status() const override {
    const std::lock_guard lock(mutex);
    return {{.name = "r1",
             .state = "signing",
             .role = {},
             .since = {},
             .waiting_for = {},
             .not_after = end}};
  }
  void set_end(WallTime next) {
    {
      const std::lock_guard lock(mutex);
      end = next;
    }
    target->root_problems_changed();
  }

  mutable std::mutex mutex;
  WallTime end = WallTime::max();
};

TEST_SUITE("control_plane: roots that end") {
  TEST_CASE("a root that ends is a warning and a problem, an ended one an error") {
    SystemClock clock;
    RandomRng rng{osm::testing::seed()};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    osm::testing::ThreadExecutor executor{1};
    osm::testing::ThreadExecutor blocking{1};
    osm::testing::MemoryMeshSpec spec;
    osm::testing::MemoryCertificateManager certificates{clock};
    OneRoot rotation;
    const auto mesh =
        ControlPlane::start({.spec = spec,
                             .providers = {},
                             .workload_providers = {},
                             .certificates = certificates,
                             .runtime = {executor, blocking, clock, rng, log, metrics},
                             .ads_address = "",
                             .root_rotation = &rotation});
    REQUIRE(mesh.ok());
    CHECK((*mesh)->status().problems.empty());
    const auto wait = [&](const char* code, const char* severity, LogLevel level) {
      return osm::testing::wait_until([&] {
        const auto lines = log.lines_with(std::string("code=") + code);
        return !lines.empty() && lines.front().level == level &&
               metrics.value("osm_problems", {{"code", code}, {"severity", severity}}) == 1;
      });
    };
    rotation.set_end(clock.wall_now() + std::chrono::days(29));
    CHECK(wait("root-ending", "warning", LogLevel::kWarning));
    REQUIRE((*mesh)->status().problems.size() == 1);
    CHECK((*mesh)->status().problems[0].path == "root r1");
    rotation.set_end(clock.wall_now() - std::chrono::seconds(1));
    CHECK(wait("certificate-expired", "error", LogLevel::kError));
    CHECK((*mesh)->status().problems.size() == 1);
    rotation.set_end(WallTime::max());
    CHECK(osm::testing::wait_until([&] {
      return metrics.value("osm_problems",
                           {{"code", "certificate-expired"}, {"severity", "error"}}) == 0;
    }));
    CHECK((*mesh)->status().problems.empty());
  }
}

}  // namespace
