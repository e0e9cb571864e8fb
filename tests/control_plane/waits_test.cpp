// A wait on the executor's own thread is refused, and a part that hangs is named.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control_plane/replica_report.hpp"
#include "lib/no_roots.hpp"
#include "lib/run.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/notifier.hpp"
#include "osm/runtime/replica_board.hpp"
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

// A board that answers no question about the reports of replicas once it is told to.
class SilentBoard final : public ReplicaBoard {
 public:
  std::atomic<bool> silent = false;
  std::promise<void> may_answer;
  mutable std::atomic<bool> asked = false;

  Status publish(const std::string& /*topic*/, std::string /*text*/) override { return {}; }
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    if (silent && topic == control_plane::kReportTopic) {
      asked = true;
      answer_.wait();
    }
    return std::map<std::string, std::string>();
  }
  std::optional<SteadyTime> confirmed_at() const override { return SteadyTime(); }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }
  void announce() { changed_.notify(); }

 private:
  std::shared_future<void> answer_ = may_answer.get_future().share();
  Notifier<> changed_;
};

// The parts of a control plane without providers.
template <class AnyClock>
struct Parts {
  explicit Parts(int threads) : executor(threads) {}

  AnyClock clock;
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::ThreadExecutor executor;
  osm::testing::ThreadExecutor blocking{2};
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryCertificateManager certificates{clock};

  ControlPlaneOptions options() {
    return {.spec = spec,
            .providers = {},
            .workload_providers = {},
            .certificates = certificates,
            .runtime = {executor, blocking, clock, rng, log, metrics},
            .ads_address = ""};
  }
};

}  // namespace

TEST_SUITE("control_plane::waits") {
  TEST_CASE("the progress of certificates is not waited for on the executor's only thread") {
    Parts<SystemClock> parts(1);
    osm::testing::NoRoots rotation;
    auto options = parts.options();
    options.root_rotation = &rotation;
    const auto mesh = ControlPlane::start(options);
    REQUIRE(mesh.ok());
    REQUIRE(rotation.target);
    const auto ask_on = [&](Executor& thread) {
      std::promise<Result<model::CertificateProgress>> answer;
      thread.post([&] { answer.set_value(rotation.target->certificate_progress({})); });
      return answer.get_future().get();
    };
    const auto refused = ask_on(parts.executor);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message.starts_with("ControlPlane::certificate_progress: "));
    CHECK(ask_on(parts.blocking).ok());
  }

  TEST_CASE("the status names a part that hangs, and only while it does") {
    Parts<osm::testing::ManualClock> parts(2);
    SilentProvider provider;
    parts.spec.put_namespace("shop");
    Service web;
    web.name = {"shop", "web"};
    web.cluster_ip = "10.0.0.1";
    parts.spec.put(web);
    auto options = parts.options();
    options.providers = {{&provider}};
    const auto mesh = ControlPlane::start(options);
    REQUIRE(mesh.ok());
    REQUIRE(osm::testing::wait_until([&] { return provider.asked.load(); }));
    CHECK((*mesh)->status().hanging.empty());
    parts.clock.advance(std::chrono::seconds(30));
    // Other parts may be at work for a moment when the clock moves.
    ControlPlaneStatus status;
    CHECK(osm::testing::wait_until([&] {
      status = (*mesh)->status();
      return status.hanging.size() == 1;
    }));
    const std::string hangs = "snapshots of the mesh: nothing has happened for 30 s";
    CHECK(status.hanging == std::vector{hangs});
    CHECK(status.waiting_for.back() == hangs);
    provider.may_answer.set_value();
    CHECK(osm::testing::wait_until([&] { return (*mesh)->status().hanging.empty(); }));
  }

  TEST_CASE("a subscriber of the host and a board that hang are named") {
    Parts<osm::testing::ManualClock> parts(2);
    SilentBoard board;
    std::promise<void> may_return;
    const std::shared_future<void> returns = may_return.get_future().share();
    std::atomic<bool> called = false;
    auto options = parts.options();
    options.board = &board;
    options.replica = "one";
    const auto mesh = ControlPlane::start(options);
    REQUIRE(mesh.ok());
    const auto hanging = [&] { return (*mesh)->status().hanging; };
    board.silent = true;
    board.announce();
    REQUIRE(osm::testing::wait_until([&] { return board.asked.load(); }));
    Subscription subscriber = (*mesh)->subscribe([&] {
      called = true;
      returns.wait();
    });
    parts.spec.put_namespace("shop");
    REQUIRE(osm::testing::wait_until([&] { return called.load(); }));
    // Other parts may be at work for a moment when the clock moves.
    const auto hang = [&](const std::vector<std::string>& expected) {
      return osm::testing::wait_until([&] { return hanging() == expected; });
    };
    CHECK(hang({}));
    parts.clock.advance(std::chrono::seconds(30));
    CHECK(hang({"list of problems: nothing has happened for 30 s"}));
    parts.clock.advance(std::chrono::seconds(90));
    CHECK(hang({"list of problems: nothing has happened for 120 s",
                "reports to other replicas: nothing has happened for 120 s"}));
    board.silent = false;
    board.may_answer.set_value();
    may_return.set_value();
    CHECK(hang({}));
  }
}
