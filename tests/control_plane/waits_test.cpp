// Waits on the executor's own thread.
#include <doctest/doctest.h>

#include <future>

#include "lib/run.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"
#include "root_rotation/target.hpp"

using namespace osm;

namespace {

// A root rotation that only keeps the control plane that was attached.
struct Attached final : RootRotation {
  std::shared_ptr<certificate::Issuer> issuer() override { return nullptr; }
  Status attach(root_rotation::Target& control_plane) override {
    target = &control_plane;
    return {};
  }
  void follow(const RotationParticipants&) override {}
  void stop() override {}
  TrustDomains trust_domains() const override { return TrustDomain("cluster.local"); }
  Result<DistrustEffect> distrust(const std::string&, bool) override { return DistrustEffect{}; }
  std::vector<RootStatus> status() const override { return {}; }

  root_rotation::Target* target = nullptr;
};

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
    Attached rotation;
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

}  // namespace
