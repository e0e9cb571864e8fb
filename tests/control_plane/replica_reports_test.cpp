// Replicas with one board answer the same about all proxies, and a mesh at rest publishes nothing.
#include "control_plane/replica_reports.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control_plane/receipts.hpp"
#include "nack_provenance/provenance_rig.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::control_plane;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// What the replicas said, under a mutex: their strands run on threads.
struct Wall {
  std::mutex mutex{};
  std::map<std::string, std::string> said{};
  int writes = 0;
  bool known = true;
  Notifier<> changed{};

  int count() {
    std::lock_guard lock(mutex);
    return writes;
  }
  std::string text(const std::string& replica) {
    std::lock_guard lock(mutex);
    return said[replica];
  }
  void set(const std::string& replica, const std::string& text) {
    {
      std::lock_guard lock(mutex);
      said[replica] = text;
      ++writes;
    }
    changed.notify();
  }
};

class WallBoard final : public ReplicaBoard {
 public:
  WallBoard(Wall& wall, std::string name, bool shares = true)
      : wall_(wall), name_(std::move(name)), shares_(shares) {
    wall_.said[name_];
  }
  Status publish(const std::string& topic, std::string text) override {
    CHECK(topic == kReportTopic);
    CHECK(text.size() <= kMaxReportBytes);
    wall_.set(name_, text);
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string&) const override {
    std::lock_guard lock(wall_.mutex);
    if (!wall_.known) return Error{ErrorCode::kUnavailable, "nobody knows"};
    return wall_.said;
  }
  std::optional<SteadyTime> confirmed_at() const override {
    return shares_ ? std::optional(SteadyTime()) : std::nullopt;
  }
  Subscription subscribe(std::function<void()> on_change) override {
    return wall_.changed.subscribe(std::move(on_change));
  }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

 private:
  Wall& wall_;
  const std::string name_;
  const bool shares_;
};

// One replica beside its controller.
struct Replica {
  Replica(Rig& rig, Controller& made, Wall& wall, const std::string& name, bool shares = true)
      : controller(made),
        board(wall, name, shares),
        reports({.board = &board,
                 .runtime = {rig.executor, blocking, rig.clock, made.rng, made.log, made.metrics},
                 .mesh = made.loop,
                 .verdicts = made.verdicts,
                 .certificates = [] { return std::vector<certificate::ProxyCertificate>(); }}),
        receipts({.mesh = made.loop,
                  .proxies = *made.server,
                  .spec = rig.spec,
                  .problems = [&made] { return made.verdicts.problems(); },
                  .refusing = [&made](const auto& key) { return made.verdicts.refusing(key); },
                  .others = [this] { return reports.others(); },
                  .subscribe_others =
                      [this](auto call) { return reports.subscribe(std::move(call)); }}) {
    reports.start(*made.server);
  }

  // As a control plane lists them.
  std::vector<Problem> refused() const { return controller.verdicts.problems(reports.refusals()); }

  Controller& controller;
  osm::testing::ThreadExecutor blocking{1};
  WallBoard board;
  ReplicaReports reports;
  Receipts receipts;
};

ObjectKey route_group(const std::string& name) {
  return {kinds::kHttpRouteGroup, values::kNs, name};
}

// "client" and "s1" are at replica a, "s0" is at replica b.
struct Two : Rig {
  Wall wall;
  std::unique_ptr<Controller> second;
  std::unique_ptr<Replica> a, b;

  Two() : Rig(2), second(make_controller()) {
    a = std::make_unique<Replica>(*this, *controller, wall, "controller-a");
    b = std::make_unique<Replica>(*this, *second, wall, "controller-b");
    move("s0", *second);
  }
  ~Two() {
    for (auto* one : {&a, &b})
      if (*one) stop(**one);
    a.reset();
    b.reset();
    for (auto& [name, proxy] : proxies) proxy->disconnect();
  }
  // The strand may wait for this thread, which runs the executor.
  void stop(Replica& replica) {
    wait(std::async(std::launch::async, [&] {
      replica.reports.stop();
      return true;
    }));
  }
  template <class T>
  T wait(std::future<T> answer) {
    while (answer.wait_for(1ms) != std::future_status::ready) executor.run_until_idle();
    return answer.get();
  }
  ObjectStatus ask(Replica& replica, const ObjectKey& object) {
    const auto status =
        wait(std::async(std::launch::async, [&] { return replica.receipts.status(object); }));
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    return *status;
  }
  // Lets everybody work until it is so.
  void until(const std::function<bool()>& so) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!so()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      settle(50ms);
      // The reports' timers run on the machine's clock: a silent proxy is cut after 30 s of the
      // manual one, which must not run far ahead.
      std::this_thread::sleep_for(20ms);
    }
  }
  // Both say so.
  void until_both(const ObjectKey& object, ObjectPhase phase, std::size_t applied) {
    for (auto* one : {&a, &b})
      until([&] {
        const ObjectStatus status = ask(**one, object);
        return status.phase == phase && status.applied == applied && status.concerned == 2;
      });
  }
};

}  // namespace

TEST_SUITE("control_plane::ReplicaReports") {
  TEST_CASE("both replicas say that a change is not applied while a proxy of one lags") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    mesh.until_both(route_group("s0"), ObjectPhase::kPending, 1);
    for (Replica* one : {mesh.a.get(), mesh.b.get()}) {
      mesh.until([&] { return mesh.ask(*one, route_group("s0")).replicas_behind.empty(); });
      const ObjectStatus status = mesh.ask(*one, route_group("s0"));
      REQUIRE(status.lagging.size() == 1);
      CHECK(status.lagging.front().workload.name == "s0");
      CHECK(mesh.ask(*one, route_group("s1")).phase == ObjectPhase::kApplied);
    }
    mesh.proxies.at("s0")->silent = false;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
  }

  TEST_CASE("a wait at one replica ends with the acknowledgement at another") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    auto waiting = std::async(std::launch::async, [&] {
      return mesh.a->receipts.wait_until_applied(route_group("s0"), 60s);
    });
    mesh.until_both(route_group("s0"), ObjectPhase::kPending, 1);
    CHECK(waiting.wait_for(0s) != std::future_status::ready);
    mesh.proxies.at("s0")->silent = false;
    mesh.until([&] { return waiting.wait_for(1ms) == std::future_status::ready; });
    CHECK(waiting.get().ok());
  }

  TEST_CASE("a refusal at one replica is known at the other") {
    Two mesh;
    mesh.put_routes("s0", "/bad");
    mesh.until_both(route_group("s0"), ObjectPhase::kRefused, 1);
    mesh.until([&] { return !mesh.a->refused().empty(); });
    CHECK(mesh.a->refused() == mesh.b->refused());
    CHECK(mesh.b->reports.refusals().empty());
    const nack_provenance::Refusals told = mesh.a->reports.refusals();
    REQUIRE(told.size() == 1);
    CHECK(told.begin()->second.begin()->second.replica == "controller-b");
  }

  TEST_CASE("an object that proxies of two replicas refuse is one problem, which counts both") {
    Two mesh;
    for (const char* name : {"s0", "s1"})
      mesh.spec.put(values::target(name, name, {"client"}, {values::http_rule("s0", {"m"})}));
    mesh.settle();
    mesh.put_routes("s0", "/bad");
    for (Replica* one : {mesh.a.get(), mesh.b.get()}) {
      const auto cause = [&] {
        const std::vector<Problem> problems = one->refused();
        return problems.size() == 1 ? problems.front().cause : "";
      };
      mesh.until([&] { return cause().find("refused by 2 of 3 connected proxies") == 0; });
      CHECK(cause() ==
            "refused by 2 of 3 connected proxies: shop/s0 (RDS): refused rds-inbound.8080; shop/s1 "
            "(RDS): refused rds-inbound.8080; they are served without it until it changes");
      CHECK(one->refused().front().object == route_group("s0"));
    }
    // A verdict that its proxy left behind at the first replica does not count again.
    mesh.move("s1", *mesh.second);
    mesh.until([&] { return mesh.second->verdicts.refusing(route_group("s0")).size() == 2; });
    mesh.until([&] { return mesh.a->reports.refusals()[route_group("s0")].size() == 2; });
    CHECK(mesh.a->refused().front().cause.find("refused by 2 of 3") == 0);
    mesh.put_routes("s0", "/mended");
    for (Replica* one : {mesh.a.get(), mesh.b.get()})
      mesh.until([&] { return one->refused().empty(); });
  }

  TEST_CASE("a mesh at rest publishes nothing, and a burst of events is one report") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    int before = -1;
    mesh.until([&] { return std::exchange(before, mesh.wall.count()) == mesh.wall.count(); });
    for (int i = 0; i < 100; ++i) mesh.a->reports.touch();
    const auto end = std::chrono::steady_clock::now() + 2500ms;
    mesh.until([&] { return std::chrono::steady_clock::now() > end; });
    CHECK(mesh.wall.count() == before);
  }

  TEST_CASE("a replica that leaves is not waited for, and one alone reports no proxies") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    mesh.stop(*mesh.b);
    mesh.until([&] { return mesh.a->reports.others()->replicas.empty(); });
    const ObjectStatus status = mesh.ask(*mesh.a, route_group("s0"));
    CHECK(status.replicas == 1);
    CHECK(status.not_connected == std::vector<WorkloadName>{{values::kNs, "s0"}});
    mesh.until([&] { return mesh.wall.text("controller-a").size() < 100; });
  }

  TEST_CASE("a replica of another version is named, and after a while not waited for") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    mesh.wall.set("controller-c", "");
    mesh.until_both(route_group("s0"), ObjectPhase::kPending, 2);
    CHECK(mesh.ask(*mesh.a, route_group("s0")).replicas_behind ==
          std::vector<std::string>{"controller-c"});
    mesh.clock.advance(31s);
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    CHECK(mesh.ask(*mesh.a, route_group("s0")).replicas_unknown ==
          std::vector<std::string>{"controller-c"});
  }

  TEST_CASE("nothing is applied while the board cannot be read") {
    Two mesh;
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    {
      std::lock_guard lock(mesh.wall.mutex);
      mesh.wall.known = false;
    }
    mesh.until_both(route_group("s0"), ObjectPhase::kPending, 2);
    {
      std::lock_guard lock(mesh.wall.mutex);
      mesh.wall.known = true;
    }
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
  }

  TEST_CASE("replicas with objects of their own report nothing") {
    Two mesh;
    Wall wall;
    Replica own(mesh, *mesh.second, wall, "controller-a", false);
    own.reports.touch();
    CHECK_FALSE(own.reports.shares());
    mesh.until_both(route_group("s0"), ObjectPhase::kApplied, 2);
    CHECK(wall.count() == 0);
  }
}
