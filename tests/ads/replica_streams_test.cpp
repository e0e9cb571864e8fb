// A proxy certificate that is in use at two replicas raises the alarm, and one that moves does
// not.
//
// Two hubs with a clock each, and a board between them.
#include "ads/replica_streams.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "ads/hub_rig.hpp"
#include "base/base64.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;

namespace {

struct Wall {
  std::map<std::string, std::string> said;
  int writes = 0;
  bool known = true;
};

class WallBoard final : public ReplicaBoard {
 public:
  WallBoard(Wall& wall, std::string name) : wall_(wall), name_(std::move(name)) {}
  Status publish(const std::string& topic, std::string text) override {
    CHECK(topic == ReplicaStreams::kTopic);
    CHECK(text.size() <= 100'000);
    wall_.said[name_] = std::move(text);
    ++wall_.writes;
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string&) const override {
    if (!wall_.known) return Error{ErrorCode::kUnavailable, "nobody knows"};
    return wall_.said;
  }
  Subscription subscribe(std::function<void()>) override { return {}; }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

 private:
  Wall& wall_;
  const std::string name_;
};

struct Replicas {
  Wall wall;
  WallBoard board_a{wall, "controller-a"};
  WallBoard board_b{wall, "controller-b"};
  HubRig a{{}, nullptr, &board_a};
  HubRig b{{}, nullptr, &board_b};

  void run_for(std::chrono::seconds time) {
    for (; time > 0s; time -= 1s) {
      a.executor.run_for(1s);
      b.executor.run_for(1s);
    }
  }
  static double alarms(const HubRig& replica) {
    return replica.metrics.sum("osm_proxy_flapping_total");
  }
};

constexpr auto kLong = ReplicaStreams::kMove + 5s;
const std::string kHost = "10.0.0.1";
const std::string kOther = "10.0.0.66";

}  // namespace

TEST_SUITE("ads::ReplicaStreams") {
  TEST_CASE("one key on two replicas raises the alarm of one key on one, at the older stream") {
    Replicas replicas;
    RigProxy proxy(replicas.a, kClientId, kClient, kHost);
    replicas.run_for(kLong);
    RigProxy thief(replicas.b, kClientId, kClient, kOther);
    replicas.run_for(kLong);
    CHECK(Replicas::alarms(replicas.a) == 1);
    CHECK(Replicas::alarms(replicas.b) == 0);
    for (const char* part : {"proxy-flapping", "other_replica", "controller-b", "10.0.0.1"})
      CHECK(replicas.a.log.all_text().find(part) != std::string::npos);
    replicas.run_for(10 * kLong);
    CHECK(Replicas::alarms(replicas.a) == 1);
  }

  TEST_CASE("a thief that leaves at once is noticed, and again when it returns") {
    Replicas replicas;
    RigProxy proxy(replicas.a, kClientId, kClient, kHost);
    for (const double alarms : {1, 2}) {
      RigProxy thief(replicas.b, kClientId, kClient, kOther);
      replicas.run_for(1s);
      thief.hang_up();
      replicas.run_for(kLong);
      CHECK(Replicas::alarms(replicas.a) == alarms);
    }
  }

  TEST_CASE("a proxy that moves to another replica raises no alarm, also with another address") {
    for (const std::string& host : {kHost, kOther}) {
      Replicas replicas;
      RigProxy before(replicas.a, kClientId, kClient, kHost);
      replicas.run_for(kLong);
      RigProxy after(replicas.b, kClientId, kClient, host);
      replicas.run_for(80s);  // gRPC notices the dead connection that late
      before.hang_up();
      replicas.run_for(kLong);
      CHECK(Replicas::alarms(replicas.a) + Replicas::alarms(replicas.b) == 0);
    }
  }

  TEST_CASE("two streams from one address, and two proxies, raise no alarm") {
    Replicas replicas;
    RigProxy dead(replicas.a, kClientId, kClient, kHost);
    RigProxy alive(replicas.b, kClientId, kClient, kHost);
    RigProxy server(replicas.b, kServerId, translate_test::kServer, kOther);
    replicas.run_for(kLong);
    CHECK(Replicas::alarms(replicas.a) + Replicas::alarms(replicas.b) == 0);
  }

  TEST_CASE("a thief that connects while the board cannot be read is noticed afterwards") {
    Replicas replicas;
    RigProxy proxy(replicas.a, kClientId, kClient, kHost);
    replicas.run_for(kLong);
    replicas.wall.known = false;
    RigProxy thief(replicas.b, kClientId, kClient, kOther);
    replicas.run_for(kLong);
    CHECK(Replicas::alarms(replicas.a) == 0);
    replicas.wall.known = true;
    replicas.run_for(kLong);
    CHECK(Replicas::alarms(replicas.a) + Replicas::alarms(replicas.b) >= 1);
  }

  TEST_CASE(
      "10,000 new streams are published in bounded texts, and a mesh at rest writes nothing") {
    Wall wall;
    WallBoard board(wall, "controller-a");
    ReplicaStreams streams(&board);
    constexpr int kProxies = 10'000;
    for (int n = 0; n < kProxies; ++n) streams.opened({"shop", ProxyId(std::to_string(n))}, kHost);
    std::set<std::string> shown;
    for (int tick = 0; tick < 120; ++tick) {
      CHECK(streams.tick(SteadyTime{}).empty());
      const std::string& text = wall.said["controller-a"];
      CHECK(text.size() < 50'000);
      const std::string bytes = text.empty() ? "" : from_base64(text.substr(2)).value();
      for (std::size_t at = 0; at < bytes.size(); at += 9) shown.insert(bytes.substr(at, 9));
    }
    CHECK(shown.size() == kProxies);
    CHECK(wall.writes == 4);  // three turns, and the end
    CHECK(wall.said["controller-a"].empty());
  }
}
