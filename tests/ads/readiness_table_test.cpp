// Replicas tell each other in one bounded set which proxies have acknowledged their ports. An
// acknowledgement counts when the proxy's listener, routes and secrets are all there.
#include "ads/readiness_table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "ads/hub_rig.hpp"
#include "ads/shared_board.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using namespace osm::translate_test;
using model::Readiness;

namespace {

model::ProxyKey numbered(int number) { return {"shop", ProxyId(std::to_string(number))}; }

struct Tables {
  osm::testing::ManualClock clock;
  Shared shared;
  SharedBoard board_a{shared, "controller-a"};
  SharedBoard board_b{shared, "controller-b"};
  ReadinessTable a{&board_a, clock};
  ReadinessTable b{&board_b, clock};
  std::vector<MeshService> ports{port(kServerService, 80, 14001)};
  std::vector<MeshService> more{port(kServerService, 80, 14001), port(kServerService, 81, 14002)};

  // Settles and ticks both for a second.
  void run_for_a_second() {
    for (int quarter = 0; quarter < 4; ++quarter) {
      clock.advance(ReadinessTable::kSettle);
      a.settle();
      b.settle();
    }
    a.tick();
    b.tick();
  }
};

const model::ProxyKey kServerKey{kServer.ns, kServerId};

// A hub whose proxies' readiness is known.
struct Served : HubRig {
  RigProxy server;
  std::vector<MeshService> ports = server_entry().ports;  // of the server

  Served() : HubRig({}, nullptr, nullptr, true), server(*this, kServerId, kServer, "10.0.0.2") {}

  Readiness readiness() const { return readiness_table->readiness_of(kServerKey, ports); }
  void settle_readiness() { executor.run_for(ReadinessTable::kSettle + 1ms); }
  void subscribe_but_routes() {
    server.ask(XdsType::kCluster);
    server.ask(XdsType::kSecret, kSecretNames);
    server.ask(XdsType::kListener);
    server.settle();
  }
  void subscribe() {
    subscribe_but_routes();
    server.ask(XdsType::kRoute, {"rds-inbound.14001"});
    server.settle();
    settle_readiness();
  }
};

}  // namespace

TEST_SUITE("ads::ReadinessTable") {
  TEST_CASE("an acknowledgement counts a moment later, for these ports only") {
    Tables t;
    const model::ProxyKey proxy = numbered(1);
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kUnknown);
    t.a.awaited(proxy);
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kNotReady);
    t.a.acknowledged(proxy, t.ports);
    CHECK(t.a.settle());  // call it again
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kNotReady);
    t.clock.advance(ReadinessTable::kSettle);
    CHECK_FALSE(t.a.settle());
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kReady);
    CHECK(t.a.readiness_of(proxy, t.more) == Readiness::kNotReady);
    CHECK(t.a.readiness_of(proxy, {}) == Readiness::kNotReady);
    t.a.awaited(proxy);
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kNotReady);
  }

  TEST_CASE("an acknowledgement of before a new stream does not count for it") {
    Tables t;
    t.a.awaited(numbered(1));
    t.a.acknowledged(numbered(1), t.ports);
    t.a.awaited(numbered(1));
    t.run_for_a_second();
    CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kNotReady);
  }

  TEST_CASE("proxies of a replica that left are about to return") {
    Tables t;
    t.a.awaited(numbered(1));
    t.a.acknowledged(numbered(1), t.ports);
    t.run_for_a_second();
    t.run_for_a_second();
    REQUIRE(t.b.readiness_of(numbered(1), t.ports) == Readiness::kReady);
    t.shared.said.erase("controller-a");
    t.b.tick();
    CHECK(t.b.readiness_of(numbered(1), t.ports) == Readiness::kReady);
    CHECK(t.b.readiness_of(numbered(1), t.more) == Readiness::kNotReady);
    t.b.awaited(numbered(1));  // it came here
    CHECK(t.b.readiness_of(numbered(1), t.ports) == Readiness::kNotReady);
    t.clock.advance(ReadinessTable::kReturn);
    t.b.tick();
    t.b.disconnected(numbered(1));
    t.clock.advance(ReadinessTable::kReturn);
    t.b.tick();
    CHECK(t.b.readiness_of(numbered(1), t.ports) == Readiness::kUnknown);
  }

  TEST_CASE("subscribers are notified once for each group of acknowledgements") {
    Tables t;
    int calls = 0;
    const Subscription subscription = t.a.subscribe([&] { ++calls; });
    for (int n = 0; n < 50; ++n) {
      t.a.awaited(numbered(n));
      t.a.acknowledged(numbered(n), t.ports);
    }
    t.clock.advance(ReadinessTable::kSettle);
    t.a.settle();
    CHECK(calls == 1);
    t.a.settle();
    CHECK(calls == 1);
  }

  TEST_CASE("another replica knows that a proxy is connected, then that it is ready") {
    Tables t;
    const model::ProxyKey proxy = numbered(1);
    t.b.awaited(proxy);
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kUnknown);
    t.run_for_a_second();
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kNotReady);
    t.b.acknowledged(proxy, t.ports);
    int calls = 0;
    const Subscription subscription = t.a.subscribe([&] { ++calls; });
    t.run_for_a_second();
    t.run_for_a_second();
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kReady);
    CHECK(t.a.readiness_of(proxy, t.more) == Readiness::kNotReady);
    CHECK(calls == 1);
  }

  TEST_CASE("a proxy counts as connected for ten seconds after its stream ended") {
    Tables t;
    const model::ProxyKey proxy = numbered(1);
    t.b.awaited(proxy);
    t.b.acknowledged(proxy, t.ports);
    t.run_for_a_second();
    t.b.disconnected(proxy);
    for (int second = 0; second < 9; ++second) t.run_for_a_second();
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kReady);
    CHECK(t.a.readiness_of(proxy, t.more) == Readiness::kNotReady);
    t.run_for_a_second();
    t.run_for_a_second();
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kUnknown);
    CHECK(t.b.readiness_of(proxy, t.ports) == Readiness::kUnknown);
  }

  TEST_CASE("a proxy that moved to this replica counts by its stream here") {
    Tables t;
    const model::ProxyKey proxy = numbered(1);
    t.b.awaited(proxy);
    t.b.acknowledged(proxy, t.ports);
    t.run_for_a_second();
    t.a.awaited(proxy);
    t.b.disconnected(proxy);
    CHECK(t.a.readiness_of(proxy, t.ports) == Readiness::kNotReady);
    CHECK(t.b.readiness_of(proxy, t.ports) == Readiness::kReady);
  }

  TEST_CASE("a replica that disappears takes its proxies along later, an unreadable board never") {
    Tables t;
    t.b.awaited(numbered(1));
    t.run_for_a_second();
    t.shared.known = false;
    t.a.tick();
    CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kNotReady);
    t.shared.known = true;
    t.shared.said.erase("controller-b");
    t.a.tick();
    CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kNotReady);
    t.clock.advance(ReadinessTable::kReturn);
    t.a.tick();
    CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kUnknown);
  }

  TEST_CASE("200 joins within a second are few texts, and a mesh at rest publishes nothing") {
    Tables t;
    for (int n = 0; n < 200; ++n) {
      t.a.awaited(numbered(n));
      t.a.acknowledged(numbered(n), t.ports);
    }
    t.run_for_a_second();
    CHECK(t.shared.writes <= 4);
    const int writes = t.shared.writes;
    for (int second = 0; second < 60; ++second) t.run_for_a_second();
    CHECK(t.shared.writes == writes);
    for (int n = 0; n < 200; ++n)
      CHECK(t.b.readiness_of(numbered(n), t.ports) == Readiness::kReady);
  }

  TEST_CASE("a text that the board refuses is published later") {
    struct Refusing final : ReplicaBoard {
      Status publish(const std::string&, std::string) override {
        ++asked;
        return refuses ? Status(Error{ErrorCode::kInvalidArgument, "too long"}) : Status();
      }
      Result<std::map<std::string, std::string>> read(const std::string&) const override {
        return std::map<std::string, std::string>();
      }
      Subscription subscribe(std::function<void()>) override { return {}; }
      bool leads() const override { return false; }
      Subscription stand(std::function<void()>) override { return {}; }
      bool refuses = true;
      int asked = 0;
    } board;
    osm::testing::ManualClock clock;
    ReadinessTable table(&board, clock);
    table.awaited(numbered(1));
    table.tick();
    board.refuses = false;
    table.tick();
    table.tick();
    CHECK(board.asked == 2);
  }

  TEST_CASE("of 10,000 proxies a bounded text has most, and the rest is unknown elsewhere") {
    Tables t;
    constexpr int kProxies = 10'000;
    for (int n = 0; n < kProxies; ++n) t.a.awaited(numbered(n));
    t.run_for_a_second();
    CHECK(t.shared.said["controller-a"].size() < 65'000);
    std::size_t known = 0;
    for (int n = 0; n < kProxies; ++n) {
      CHECK(t.a.readiness_of(numbered(n), t.ports) == Readiness::kNotReady);
      known += t.b.readiness_of(numbered(n), t.ports) == Readiness::kNotReady;
    }
    CHECK(known == ReadinessTable::kMaxPublished);
  }

  TEST_CASE("a text of another version, and one that is cut or no base64, names nobody beyond it") {
    Tables t;
    t.b.awaited(numbered(1));
    t.run_for_a_second();
    const std::string good = t.shared.said["controller-b"];
    for (const std::string& bad : {"1" + good.substr(1), good.substr(0, 6), std::string("2 !"),
                                   std::string("2 "), std::string("2")}) {
      t.shared.said["controller-b"] = bad;
      t.a.tick();
      CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kUnknown);
    }
    t.shared.said["controller-b"] = good;
    t.a.tick();
    CHECK(t.a.readiness_of(numbered(1), t.ports) == Readiness::kNotReady);
  }
}

TEST_SUITE("ads::Hub readiness") {
  TEST_CASE("a proxy is ready after it has acknowledged its listener, routes and secrets") {
    Served rig;
    CHECK(rig.readiness() == Readiness::kNotReady);
    rig.subscribe_but_routes();
    rig.settle_readiness();
    CHECK(rig.readiness() == Readiness::kNotReady);
    rig.server.ask(XdsType::kRoute, {"rds-inbound.14001"});
    rig.server.settle();
    CHECK(rig.readiness() == Readiness::kNotReady);
    rig.settle_readiness();
    CHECK(rig.readiness() == Readiness::kReady);
  }

  TEST_CASE("another own port has to be acknowledged first") {
    Served rig;
    rig.subscribe();
    REQUIRE(rig.readiness() == Readiness::kReady);
    auto entry = server_entry();
    entry.ports.push_back(port(kServerService, 81, 14002));
    rig.mesh.put(entry);
    rig.ports = entry.ports;
    rig.publish();
    rig.settle_readiness();
    CHECK(rig.readiness() == Readiness::kNotReady);
    rig.server.settle();
    rig.server.ask(XdsType::kRoute, {"rds-inbound.14001", "rds-inbound.14002"});
    rig.server.settle();
    rig.settle_readiness();
    CHECK(rig.readiness() == Readiness::kReady);
  }

  TEST_CASE("other callers have to be acknowledged first, if the listener or a route names them") {
    Served rig;
    rig.subscribe();
    REQUIRE(rig.readiness() == Readiness::kReady);
    const auto readiness = [&](std::uint64_t admits) {
      return rig.readiness_table->readiness_of(kServerKey, {rig.ports, admits});
    };
    const auto admit = [&](std::uint64_t admits) {
      rig.mesh.admit({kClient, {"shop", "other"}}, admits);
      rig.publish();
      rig.settle_readiness();
    };
    admit(7);
    CHECK(readiness(7) == Readiness::kNotReady);
    rig.server.settle();
    rig.settle_readiness();
    CHECK(readiness(7) == Readiness::kReady);
    CHECK(readiness(0) == Readiness::kNotReady);
    admit(8);
    CHECK(rig.server.settle().empty());
    CHECK(readiness(8) == Readiness::kReady);
  }

  TEST_CASE("a proxy that refuses its listener is not ready") {
    Served rig;
    rig.server.refuses = [](const Response& r) { return r.type == XdsType::kListener; };
    rig.subscribe();
    CHECK(rig.readiness() == Readiness::kNotReady);
  }

  TEST_CASE("a proxy that has hung up is ready until the time to return is over") {
    Served rig;
    rig.subscribe();
    rig.server.hang_up();
    CHECK(rig.readiness() == Readiness::kReady);
    rig.executor.run_for(ReadinessTable::kReturn + 2s);
    CHECK(rig.readiness() == Readiness::kUnknown);
    RigProxy again(rig, kServerId, kServer, "10.0.0.2");
    CHECK(rig.readiness() == Readiness::kNotReady);
  }
}
