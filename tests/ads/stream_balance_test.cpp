// Replicas with many more streams than others end some, any distribution is even after eight
// rounds, and a mesh at rest publishes nothing.
#include "ads/stream_balance.hpp"

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ads/hub_rig.hpp"
#include "lib/run.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;
using translate_test::kServer;

namespace {

using Counts = std::vector<std::size_t>;

class Board final : public ReplicaBoard {
 public:
  explicit Board(std::string name) : name_(std::move(name)) {}
  Status publish(const std::string& topic, std::string text) override {
    if (topic != StreamBalance::kTopic) return {};
    said[name_] = std::move(text);
    ++writes;
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    if (!known) return Error{ErrorCode::kUnavailable, "nobody knows"};
    if (topic != StreamBalance::kTopic) return std::map<std::string, std::string>();
    return said;
  }
  Subscription subscribe(std::function<void()>) override { return {}; }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

  std::map<std::string, std::string> said;
  int writes = 0;
  bool known = true;

 private:
  const std::string name_;
};

struct Ticking {
  Board board{"a"};
  StreamBalance balance{&board};
  SteadyTime now{};

  // Result: the streams to end, in so many seconds.
  std::size_t run_for(std::chrono::seconds time, std::optional<std::size_t> streams) {
    std::size_t ended = 0;
    for (; time > 0s; time -= 1s) ended += balance.tick(now += 1s, streams);
    return ended;
  }
};

struct Hubs {
  Board board{"a"};
  HubRig rig{{.rebalance = true}, nullptr, &board};
  RigProxy client{rig, kClientId, kClient};
  RigProxy server{rig, kServerId, kServer};

  Hubs() {
    for (RigProxy* proxy : {&client, &server}) {
      proxy->ask_for_all();
      proxy->settle();
    }
  }
  std::size_t ended() const {
    return rig.metrics.value("osm_streams_ended_total", {{"code", "rebalanced"}});
  }
};

}  // namespace

TEST_SUITE("ads::StreamBalance") {
  TEST_CASE("the excess is what is above the mean and a tenth") {
    CHECK(StreamBalance::excess(300, {300, 0, 0}) == 190);
    CHECK(StreamBalance::excess(110, {110, 95, 95}) == 0);
    CHECK(StreamBalance::excess(111, {111, 95, 94}) == 1);
    CHECK(StreamBalance::excess(90, {90, 110}) == 0);
    CHECK(StreamBalance::excess(3, {3, 0}) == 1);
    CHECK(StreamBalance::excess(2, {2, 1}) == 0);
    CHECK(StreamBalance::excess(1, {1, 0, 0}) == 0);
    CHECK(StreamBalance::excess(5, {5}) == 0);
    CHECK(StreamBalance::excess(0, {}) == 0);
  }

  // The proxies that are sent away land at a random replica, which may be the same one.
  TEST_CASE("any distribution is even after eight rounds") {
    RandomRng rng{osm::testing::seed()};
    for (int turn = 0; turn < 200; ++turn) {
      Counts counts(2 + rng.next() % 5);
      for (std::size_t& count : counts) count = rng.next() % 3 == 0 ? 0 : rng.next() % 2000;
      const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
      for (int round = 0; round < 8; ++round) {
        const Counts before = counts;
        for (std::size_t& count : counts) {
          std::size_t left = StreamBalance::excess(before[&count - counts.data()], before);
          count -= left;
          while (left-- > 0) ++counts[rng.next() % counts.size()];
        }
      }
      REQUIRE(std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == sum);
      for (const std::size_t count : counts)
        CHECK(static_cast<double>(count) <= 1.15 * static_cast<double>(sum) / counts.size() + 3);
    }
  }

  TEST_CASE("a number is published when it has changed, every five seconds at most") {
    Ticking t;
    t.run_for(1s, 7);
    CHECK(t.board.said.at("a") == "7");
    t.run_for(4s, 8);
    CHECK(t.board.writes == 1);
    t.run_for(1s, 9);
    CHECK(t.board.said.at("a") == "9");
    t.run_for(600s, 9);
    CHECK(t.board.writes == 2);
  }

  TEST_CASE("replicas that take no streams, and texts that are no numbers, do not count") {
    Ticking t;
    t.board.said = {{"b", ""}, {"c", "no number"}};
    CHECK(t.run_for(60s, 100) == 0);
    t.board.said["b"] = "0";
    CHECK(t.run_for(StreamBalance::kRound, 100) == 45);
    CHECK(t.run_for(60s, std::nullopt) == 0);  // it takes none itself
    CHECK(t.board.said.at("a") == "");
    CHECK(StreamBalance(nullptr).tick(SteadyTime{} + 60s, 100) == 0);
  }

  TEST_CASE("nothing ends while the other replicas are not known") {
    Ticking t;
    t.board.said["b"] = "0";
    t.board.known = false;
    CHECK(t.run_for(60s, 100) == 0);
  }

  TEST_CASE_FIXTURE(Hubs, "a hub ends streams of proxies that hold their configuration") {
    board.said["b"] = "0";
    rig.executor.run_for(StreamBalance::kRound + 2s);
    CHECK(ended() == 0);  // two, and nobody has more than the mean, rounded up, but by one
    board.said["c"] = "0";
    rig.executor.run_for(4 * StreamBalance::kRound);
    CHECK(ended() == 1);
    CHECK(client.open() != server.open());
  }

  TEST_CASE_FIXTURE(Hubs, "proxies on trial stay, and may go when their trials have ended") {
    const std::vector<model::ProxyKey> keys{{kClient.ns, kClientId}, {kServer.ns, kServerId}};
    TestMesh closed;
    closed.allow(false);
    const MeshPtr other = closed.next();
    for (const model::ProxyKey& key : keys)
      rig.hub.trials().try_on(key, {other, nullptr}, [](auto&&) {});
    const auto settle = [&] {
      rig.executor.run_until_idle();
      client.settle();
      server.settle();
    };
    settle();
    board.said = {{"b", "0"}, {"c", "0"}};
    rig.executor.run_for(4 * StreamBalance::kRound);
    CHECK(ended() == 0);

    for (const model::ProxyKey& key : keys) rig.hub.trials().end_trial(key, false);
    settle();
    rig.executor.run_for(4 * StreamBalance::kRound);
    CHECK(ended() == 1);
  }

  TEST_CASE_FIXTURE(Hubs, "a replica that admits no proxy keeps the ones that it has") {
    rig.executor.run_for(2s);
    CHECK(board.said.at("a") == "2");
    rig.admits = Error{ErrorCode::kNotReady, "stale"};
    board.said = {{"b", "0"}, {"c", "0"}, {"d", "0"}};
    rig.executor.run_for(60s);
    CHECK(ended() == 0);
    CHECK(board.said.at("a") == "");
  }
}
