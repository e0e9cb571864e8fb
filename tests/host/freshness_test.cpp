// A stale replica refuses proxies while another one is fresh and admits them, and serves when none
// does.
#include "host/freshness.hpp"

#include <doctest/doctest.h>

#include "osm/testing/manual_clock.hpp"

using namespace osm;
using host::Freshness;
using namespace std::chrono_literals;

namespace {

struct Fixture {
  osm::testing::ManualClock clock;
  Freshness replica{clock, 30s};

  Fixture() {
    replica.confirmed(clock.steady_now());
    replica.listed({{"b", "10.0.0.2:9091"}, {"c", "10.0.0.3:9091"}, {"old", ""}});
  }
  // `name` answers that it is fresh, or stale.
  bool answers(const std::string& name, bool fresh) {
    return replica.answered(
        name, Freshness::Answer{.replica = name, .generation = 1, .stale = !fresh, .admits = true});
  }
  bool refuses() const { return !replica.admits().ok(); }
  std::string names() const {
    std::string names;
    for (const auto& peer : replica.peers()) names += peer.replica;
    return names;
  }
};

}  // namespace

TEST_SUITE("Freshness") {
  TEST_CASE_FIXTURE(Fixture, "a replica is stale when it has had no proof for the bound") {
    clock.advance(29s);
    CHECK_FALSE(replica.stale());
    clock.advance(1s);
    CHECK(replica.stale());
    replica.confirmed(clock.steady_now());
    CHECK_FALSE(replica.stale());
  }

  TEST_CASE_FIXTURE(Fixture, "where no proof is possible, a replica is never stale") {
    replica.confirmed(std::nullopt);
    clock.advance(1h);
    CHECK(replica.staleness() == 0s);
    CHECK_FALSE(replica.stale());
  }

  TEST_CASE_FIXTURE(Fixture, "two replicas: the stale one refuses while the other one is fresh") {
    answers("b", true);
    CHECK_FALSE(refuses());  // it is not stale itself
    clock.advance(30s);
    CHECK_FALSE(refuses());  // the answer is too old
    answers("b", true);
    CHECK(refuses());
    CHECK(replica.admits().error().code == ErrorCode::kUnavailable);
    CHECK(replica.admits().error().message.find("replica b reaches it") != std::string::npos);
    clock.advance(Freshness::kAnswerLife);
    CHECK_FALSE(refuses());  // nobody answers any more
    answers("b", true);
    replica.confirmed(clock.steady_now());
    CHECK_FALSE(refuses());
  }

  TEST_CASE_FIXTURE(Fixture, "three replicas: when all are stale, all serve") {
    clock.advance(30s);
    answers("b", false);
    answers("c", true);
    CHECK(refuses());
    CHECK(replica.admits().error().message.find("replica c") != std::string::npos);
    answers("c", false);
    CHECK_FALSE(refuses());
  }

  TEST_CASE_FIXTURE(Fixture, "a replica counts only if it is fresh and admits proxies itself") {
    using Answer = Freshness::Answer;
    clock.advance(30s);
    CHECK(replica.answered("b", Answer{"b", 1, false, true}));
    CHECK(refuses());
    for (const std::optional<Answer>& answer :
         {std::optional<Answer>(), std::optional(Answer{"b", 1, false, false}),
          std::optional(Answer{"b", 1, true, true}), std::optional(Answer{"b", 0, false, true}),
          std::optional(Answer{"c", 1, false, true}), std::optional(Answer{.replica = "b"})}) {
      CHECK(answers("b", true));
      CHECK_FALSE(replica.answered("b", answer));
      CHECK_FALSE(refuses());
    }
  }

  TEST_CASE_FIXTURE(Fixture, "the others are remembered while they cannot be listed") {
    CHECK(names() == "bc");
    clock.advance(24h);
    CHECK(names() == "bc");
    answers("c", true);
    CHECK(names() == "cb");
    answers("stranger", true);
    CHECK(names() == "cb");
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that is no longer listed is forgotten, but not at once") {
    clock.advance(Freshness::kPeerLife - 1s);
    replica.listed({{"c", "10.0.0.4:9091"}});
    CHECK(names() == "bc");
    clock.advance(1s);
    replica.listed({{"c", "10.0.0.4:9091"}});
    CHECK(names() == "c");
    CHECK(replica.peers().front().address == "10.0.0.4:9091");
  }
}
