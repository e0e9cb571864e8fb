// A wait on the executor's own thread is refused, and a part that hangs is named.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "lib/no_roots.hpp"
#include "lib/run.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/testing/thread_executor.hpp"
#include "root_rotation/target.hpp"

using namespace osm;

namespace {

// A provider that answers no question before it may.
class SilentProvider final : public EndpointsProvider {
 public:
  std::promise<void> may_answer;
  mutable std::atomic<bool> asked = false;

  std::string id() const override { return "silent"; }
  bool has_synced() const override { return true; }
  bool healthy() const override { return true; }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& /*service*/) const override {
    asked = true;
    answer_.wait();
    return std::nullopt;
  }
  Subscription subscribe(std::function<void(const std::vector<ServiceName>&)>) override {
    return {};
  }

 private:
  std::shared_future<void> answer_ = may_answer.get_future().share();
};

}  // namespace

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

  TEST_CASE("the status names a part that hangs, and only while it does") {
    osm::testing::ManualClock clock;
    RandomRng rng{osm::testing::seed()};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    osm::testing::ThreadExecutor executor{2};
    osm::testing::MemoryMeshSpec spec;
    osm::testing::MemoryCertificateManager certificates{clock};
    SilentProvider provider;
    spec.put_namespace("shop");
    Service web;
    web.name = {"shop", "web"};
    web.cluster_ip = "10.0.0.1";
    spec.put(web);
    const auto mesh =
        ControlPlane::start({.spec = spec,
                             .providers = {{&provider}},
                             .workload_providers = {},
                             .certificates = certificates,
                             .runtime = {executor, executor, clock, rng, log, metrics},
                             .ads_address = ""});
    REQUIRE(mesh.ok());
    REQUIRE(osm::testing::wait_until([&] { return provider.asked.load(); }));
    CHECK((*mesh)->status().hanging.empty());
    clock.advance(std::chrono::seconds(30));
    const ControlPlaneStatus status = (*mesh)->status();
    REQUIRE(status.hanging.size() == 1);
    CHECK(status.hanging[0] == "snapshots of the mesh: nothing has happened for 30 s");
    CHECK(status.waiting_for.back() == status.hanging[0]);
    provider.may_answer.set_value();
    CHECK(osm::testing::wait_until([&] { return (*mesh)->status().hanging.empty(); }));
  }
}
