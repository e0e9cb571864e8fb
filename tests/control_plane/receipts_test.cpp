// A change is live when each proxy that it concerns has acknowledged it.
#include "control_plane/receipts.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "nack_provenance/provenance_rig.hpp"

using namespace osm;
using namespace osm::provenance_test;
using namespace std::chrono_literals;

namespace {

// Servers "s0".. that "client" may call, and receipts of their objects.
struct Mesh : Rig {
  control_plane::Receipts receipts;

  explicit Mesh(int servers, XdsVariant variant = XdsVariant::kSotw)
      : Rig(servers, variant),
        receipts(
            {.mesh = controller->loop,
             .proxies = *controller->server,
             .spec = spec,
             .problems =
                 [this] {
                   auto problems = spec.list_problems();
                   for (Problem& problem : controller->verdicts.problems())
                     problems.push_back(std::move(problem));
                   return problems;
                 },
             .refusing =
                 [this](const ObjectKey& object) { return controller->verdicts.refusing(object); },
             .others = [] { return std::make_shared<const control_plane::OtherReplicas>(); },
             .subscribe_others = [](const auto&) { return Subscription(); }}) {}

  // Questions wait for the executor, which this thread moves meanwhile; time stands still.
  template <class T>
  T meanwhile(std::future<T> answer) {
    while (answer.wait_for(1ms) != std::future_status::ready) executor.run_until_idle();
    return answer.get();
  }
  Result<ObjectStatus> ask(const ObjectKey& object) {
    return meanwhile(std::async(std::launch::async, [&] { return receipts.status(object); }));
  }
  std::future<Result<ObjectStatus>> wait(const ObjectKey& object,
                                         std::chrono::milliseconds timeout) {
    return std::async(std::launch::async,
                      [=, this] { return receipts.wait_until_applied(object, timeout); });
  }
  // The waiting thread has asked, and sleeps or is about to.
  void let_it_look() {
    for (int i = 0; i < 20; ++i) {
      executor.run_until_idle();
      std::this_thread::yield();
    }
  }
};

ObjectKey target(const std::string& name) { return {kinds::kTrafficTarget, values::kNs, name}; }
ObjectKey routes(const std::string& name) { return {kinds::kHttpRouteGroup, values::kNs, name}; }

std::vector<std::string> names(const std::vector<ProxyLag>& lagging) {
  std::vector<std::string> out;
  for (const ProxyLag& lag : lagging) out.push_back(lag.workload.name);
  return out;
}

}  // namespace

TEST_SUITE("control_plane::Receipts") {
  TEST_CASE("a change is live once every proxy that it concerns has acknowledged it") {
    XdsVariant variant = XdsVariant::kSotw;
    SUBCASE("state of the world") {}
    SUBCASE("delta") { variant = XdsVariant::kDelta; }
    Mesh mesh(2, variant);
    const auto before = mesh.ask(routes("s0"));
    REQUIRE(before.ok());
    CHECK(before->phase == ObjectPhase::kApplied);
    CHECK(before->concerned == 2);  // the client and s0
    CHECK(before->applied == 2);

    mesh.put_routes("s0", "/new");
    CHECK(mesh.ask(routes("s0"))->phase == ObjectPhase::kPending);  // it is not even read
    mesh.executor.run_for(200ms);
    const auto sent = mesh.ask(routes("s0"));
    CHECK(sent->phase == ObjectPhase::kPending);
    CHECK(sent->generation > before->generation);
    CHECK(names(sent->lagging) ==
          std::vector<std::string>{"s0"});  // nothing changed for the client
    CHECK_FALSE(mesh.live("s0", "/new"));

    mesh.settle();
    CHECK(mesh.ask(routes("s0"))->phase == ObjectPhase::kApplied);
    CHECK(mesh.live("s0", "/new"));
  }

  TEST_CASE("a generation that does not concern a proxy costs it nothing and keeps it current") {
    Mesh mesh(2);
    const int responses = mesh.proxies.at("s1")->responses;
    mesh.put_routes("s0", "/new");
    mesh.settle();
    const auto other = mesh.ask(target("s1"));
    CHECK(other->phase == ObjectPhase::kApplied);
    CHECK(mesh.proxies.at("s1")->responses == responses);
    // And it has the newest generation: what is removed now concerns it, and is waited for.
    mesh.spec.remove(target("s1"));
    mesh.executor.run_for(200ms);
    CHECK(mesh.ask(target("s1"))->phase == ObjectPhase::kPending);
    mesh.settle();
    CHECK(mesh.ask(target("s1"))->phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a wait ends when the last proxy has answered, and not before") {
    Mesh mesh(1);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    auto waiting = mesh.wait(routes("s0"), 60s);
    mesh.settle(500ms);
    CHECK(waiting.wait_for(0s) != std::future_status::ready);
    mesh.proxies.at("s0")->silent = false;
    mesh.settle();
    const auto status = mesh.meanwhile(std::move(waiting));
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    CHECK(status->phase == ObjectPhase::kApplied);
    CHECK(status->applied == 2);
    CHECK(mesh.live("s0", "/new"));
  }

  TEST_CASE("a proxy that is silent is named when the time is over") {
    Mesh mesh(2);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    mesh.settle(500ms);
    const auto late = mesh.meanwhile(mesh.wait(routes("s0"), 50ms));
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::kDeadlineExceeded);
    CHECK(late.error().message.find("behind: shop/s0") != std::string::npos);
    CHECK(late.error().message.find("1 of 2 proxies") != std::string::npos);
    CHECK(mesh.meanwhile(mesh.wait(routes("s1"), 60s)).ok());
  }

  TEST_CASE("a removal is waited for like any change, and then there is nothing to ask about") {
    Mesh mesh(2);
    mesh.spec.remove(target("s0"));
    auto waiting = mesh.wait(target("s0"), 60s);
    mesh.settle();
    const auto status = mesh.meanwhile(std::move(waiting));
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    CHECK(status->removed);
    CHECK(status->concerned == 2);
    CHECK_FALSE(mesh.live("s0", "/good"));
    CHECK(mesh.ask(target("none")).error().code == ErrorCode::kNotFound);
    const auto secret = mesh.ask({{"", "Secret"}, values::kNs, "x"});
    CHECK(secret.error().code == ErrorCode::kNotFound);
    CHECK(secret.error().message.find("its kind shapes no proxy") != std::string::npos);
  }

  TEST_CASE("an object that became invalid is rejected, whatever proxies have") {
    Mesh mesh(1);
    mesh.spec.set_problems({{.code = ErrorCode::kInvalidField,
                             .object = target("s0"),
                             .path = {},
                             .field = "spec.rules",
                             .cause = "is wrong"}});
    mesh.spec.remove(target("s0"));
    mesh.settle();
    const auto status = mesh.ask(target("s0"));
    REQUIRE(status.ok());
    CHECK(status->phase == ObjectPhase::kRejected);
    CHECK(status->problems.size() == 1);
    const auto waited = mesh.meanwhile(mesh.wait(target("s0"), 60s));
    REQUIRE_FALSE(waited.ok());
    CHECK(waited.error().code == ErrorCode::kInvalidField);
    CHECK(waited.error().message.find("is wrong") != std::string::npos);
  }

  TEST_CASE("a present object without effect is rejected, with the reason") {
    Mesh mesh(1);
    mesh.spec.put(values::target("s0", "s0", {"client"}, {values::http_rule("gone", {"all"})}));
    mesh.settle();
    CHECK(mesh.ask(target("s0"))->phase != ObjectPhase::kRejected);  // nobody says why
    mesh.spec.set_problems({{.code = ErrorCode::kDanglingReference,
                             .object = target("s0"),
                             .path = {},
                             .field = "spec.rules[0].name",
                             .cause = "is not there"}});
    mesh.settle();
    CHECK(mesh.ask(target("s0"))->phase == ObjectPhase::kRejected);
    CHECK_FALSE(mesh.ask(target("s0"))->removed);
    const auto waited = mesh.meanwhile(mesh.wait(target("s0"), 60s));
    REQUIRE_FALSE(waited.ok());
    CHECK(waited.error().code == ErrorCode::kDanglingReference);
  }

  TEST_CASE("an object that is written outside of the mesh is rejected, and a deleted one is not") {
    Mesh mesh(1);
    const ObjectKey elsewhere{kinds::kTrafficTarget, "far", "x"};
    CHECK(mesh.ask(elsewhere).error().code == ErrorCode::kNotFound);
    mesh.spec.set_source(elsewhere, {.path = "mesh/far.yaml", .line = 7, .fields = {}});
    const auto status = mesh.ask(elsewhere);
    REQUIRE(status.ok());
    CHECK(status->phase == ObjectPhase::kRejected);
    REQUIRE(status->problems.size() == 1);
    CHECK(status->problems[0].text().find("namespace far is not in the mesh") != std::string::npos);
    CHECK(status->problems[0].line == 7);
    mesh.spec.set_source(target("none"), {.path = "mesh/none.yaml", .line = 1, .fields = {}});
    CHECK(mesh.ask(target("none")).error().code == ErrorCode::kNotFound);  // its namespace is
  }

  TEST_CASE("an object that a proxy refuses ends up refused with the proxy's words") {
    Mesh mesh(2);
    mesh.put_routes("s0", "/bad");
    auto waiting = mesh.wait(routes("s0"), 60s);
    mesh.settle();
    const auto waited = mesh.meanwhile(std::move(waiting));
    REQUIRE_FALSE(waited.ok());
    CHECK(waited.error().code == ErrorCode::kRefusedByProxy);
    CHECK(waited.error().message.find("refused rds-inbound") != std::string::npos);
    const auto status = mesh.ask(routes("s0"));
    CHECK(status->phase == ObjectPhase::kRefused);
    CHECK(status->concerned == 2);
    CHECK(status->applied == 1);  // the client
    CHECK(names(status->lagging) == std::vector<std::string>{"s0"});
    CHECK(status->lagging.front().detail.find("refused rds-inbound") != std::string::npos);
    CHECK(status->problems.size() == 1);
    CHECK(mesh.ask(target("s1"))->phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a proxy that comes later counts once it has everything, and one that left is named") {
    Mesh mesh(2);
    mesh.proxies.at("s0")->disconnect();
    mesh.put_routes("s0", "/new");
    mesh.settle();
    const auto gone = mesh.ask(routes("s0"));
    CHECK(gone->phase == ObjectPhase::kApplied);
    CHECK(gone->concerned == 1);
    CHECK(gone->not_connected == std::vector<WorkloadName>{{values::kNs, "s0"}});

    mesh.connect("s0");
    CHECK(names(mesh.ask(routes("s0"))->lagging) == std::vector<std::string>{"s0"});
    mesh.settle();
    CHECK(mesh.ask(routes("s0"))->applied == 2);
    // Once more, with nothing to send.
    mesh.proxies.at("s0")->disconnect();
    mesh.connect("s0");
    mesh.settle();
    CHECK(mesh.ask(routes("s0"))->applied == 2);
  }

  TEST_CASE("a proxy that hangs up is no longer waited for") {
    Mesh mesh(1);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    auto waiting = mesh.wait(routes("s0"), 60s);
    mesh.settle(500ms);
    mesh.let_it_look();
    mesh.proxies.at("s0")->disconnect();
    CHECK(mesh.meanwhile(std::move(waiting)).ok());
  }

  TEST_CASE("a machine is asked for as its platform calls it") {
    Mesh mesh(1);
    const auto machine = mesh.ask({kinds::kVirtualMachine, values::kNs, "s0"});
    REQUIRE(machine.ok());
    CHECK(machine->phase == ObjectPhase::kApplied);
    CHECK(machine->object.kind == "VirtualMachine");
    CHECK(machine->concerned == 2);
    CHECK(mesh.ask({kinds::kMeshConfig, "osm-system", "osm-mesh-config"})->concerned == 2);
  }

  TEST_CASE("a wait fails when the control plane stops") {
    Mesh mesh(1);
    mesh.proxies.at("s0")->silent = true;
    mesh.put_routes("s0", "/new");
    auto waiting = mesh.wait(routes("s0"), 60s);
    mesh.settle(500ms);
    mesh.receipts.stop();
    CHECK(mesh.meanwhile(std::move(waiting)).error().code == ErrorCode::kUnavailable);
    CHECK(mesh.ask(routes("s0")).error().code == ErrorCode::kUnavailable);
  }
}
