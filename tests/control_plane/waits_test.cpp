// A wait on the executor's own thread is refused.
#include <doctest/doctest.h>

#include <future>

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

TEST_SUITE("control_plane::waits") {
  TEST_CASE("the progress of certificates is not waited for on the executor's only thread") {
    SystemClock clock;
    RandomRng rng{osm::testing::seed()};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    osm::testing::ThreadExecutor executor{1};
    osm::testing::ThreadExecutor blocking{1};
    osm::testing::MemoryMeshSpec spec;
    osm::testing::MemoryCertificateManager certificates{clock};
    osm::testing::NoRoots rotation;
    const auto mesh =
        ControlPlane::start({.spec = spec,
                             .providers = {},
                             .workload_providers = {},
                             .certificates = certificates,
                             .runtime = {executor, blocking, clock, rng, log, metrics},
                             .ads_address = "",
                             .root_rotation = &rotation});
    REQUIRE(mesh.ok());
    REQUIRE(rotation.target);
    const auto ask_on = [&](Executor& thread) {
      std::promise<Result<model::CertificateProgress>> answer;
      thread.post([&] { answer.set_value(rotation.target->certificate_progress({})); });
      return answer.get_future().get();
    };
    const auto refused = ask_on(executor);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message.starts_with("ControlPlane::certificate_progress: "));
    CHECK(ask_on(blocking).ok());
  }
}
