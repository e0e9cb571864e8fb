// What a proxy refuses is withheld, and its last good content comes back, in both variants.
#include <doctest/doctest.h>

#include "ads/session_fixture.hpp"

using namespace osm;
using namespace osm::ads_test;
using ads::ResourceSet;
using Effect = ads::Session::Effect;

namespace {

constexpr XdsType kCds = XdsType::kCluster;

}  // namespace

TEST_SUITE("ads::Session refusals") {
  // --- state of the world ---

  TEST_CASE_FIXTURE(SotwFixture,
                    "after a NACK the last good content comes back and the bad is held") {
    put(XdsType::kCluster, {cluster("a", "1")});
    say(XdsType::kCluster, {});
    const Response good = take(XdsType::kCluster);
    ack(good);
    put(XdsType::kCluster, {cluster("a", "bad")});
    const Response bad = take(XdsType::kCluster);
    CHECK(say(XdsType::kCluster, {}, good.version, bad.nonce, "no such thing") == Effect::kNack);
    CHECK(session.acknowledged(XdsType::kCluster) == nullptr);
    const Response restored = take(XdsType::kCluster);
    CHECK(restored.version == good.version);
    CHECK(restored.nonce != bad.nonce);
    ack(restored);
    CHECK_FALSE(next());
    CHECK(session.state(XdsType::kCluster).state == SyncState::kStale);
    CHECK(session.state(XdsType::kCluster).nack_detail == "no such thing");
    put(XdsType::kCluster, {cluster("a", "3")});
    ack(take(XdsType::kCluster));
    CHECK(session.state(XdsType::kCluster).state == SyncState::kSynced);
    CHECK(session.state(XdsType::kCluster).nack_detail.empty());
  }

  TEST_CASE_FIXTURE(SotwFixture,
                    "content that was good and is refused too is not sent a third time") {
    put(XdsType::kListener, {resource(XdsType::kListener, "l", "1")});
    say(XdsType::kListener, {});
    const Response good = take(XdsType::kListener);
    ack(good);
    put(XdsType::kListener, {resource(XdsType::kListener, "l", "2")});
    for (int i = 0; i < 2; ++i)
      say(XdsType::kListener, {}, good.version, take(XdsType::kListener).nonce, "no");
    CHECK_FALSE(next());
  }

  // If each refusal took the acknowledged content as the good one, the second one would find none,
  // and nothing would be sent after it.
  TEST_CASE_FIXTURE(SotwFixture, "the last good content comes back after refusals in a row") {
    const auto put_listener = [&](const std::string& bytes) {
      put(XdsType::kListener, {resource(XdsType::kListener, "l", bytes)});
    };
    put_listener("1");
    say(XdsType::kListener, {});
    const Response good = take(XdsType::kListener);
    ack(good);
    const auto refuse = [&](const Response& response) {
      CHECK(say(XdsType::kListener, {}, good.version, response.nonce, "no") == Effect::kNack);
    };
    put_listener("bad");
    refuse(take(XdsType::kListener));
    SUBCASE("before it was sent again") {}
    SUBCASE("while it is unanswered") { take(XdsType::kListener); }
    SUBCASE("and was refused too") {
      refuse(take(XdsType::kListener));
      CHECK_FALSE(next());
    }
    put_listener("worse");
    refuse(take(XdsType::kListener));
    REQUIRE(session.last_good(XdsType::kListener));
    CHECK(session.last_good(XdsType::kListener)->version() == good.version);
    const Response restored = take(XdsType::kListener);
    CHECK(restored.version == good.version);
    ack(restored);
    CHECK_FALSE(next());
    CHECK(session.state(XdsType::kListener).state == SyncState::kStale);
  }

  // Likewise: the set with kept clusters is refused first, then the one without.
  TEST_CASE_FIXTURE(SotwFixture, "the last good clusters come back after a set with kept ones") {
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kListener,
        {resource(XdsType::kListener, "l", "to b", {{XdsType::kCluster, "b"}})});
    say(XdsType::kCluster, {});
    const Response good = take(XdsType::kCluster);
    ack(good);
    say(XdsType::kListener, {});
    ack(take(XdsType::kListener));
    put(XdsType::kCluster, {cluster("a", "bad")});
    for (const std::size_t size : {2, 1}) {
      const Response bad = take(XdsType::kCluster);
      CHECK(bad.resources.size() == size);
      say(XdsType::kCluster, {}, good.version, bad.nonce, "no");
    }
    CHECK(take(XdsType::kCluster).version == good.version);
  }

  // If a refusal were of all content beside the bad one, nothing would be sent after it.
  TEST_CASE_FIXTURE(SotwFixture, "good content that is refused beside bad content is sent again") {
    const std::vector<std::string> names{"a", "b"};
    put(XdsType::kEndpoint, {endpoints("a", "1"), endpoints("b", "1")});
    say(XdsType::kEndpoint, names);
    const Response good = take(XdsType::kEndpoint);
    ack(good, names);
    put(XdsType::kEndpoint, {endpoints("a", "bad"), endpoints("b", "1")});
    say(XdsType::kEndpoint, names, good.version, take(XdsType::kEndpoint).nonce, "no");
    put(XdsType::kEndpoint, {endpoints("a", "bad"), endpoints("b", "bad")});
    const Response beside = take(XdsType::kEndpoint);
    REQUIRE(beside.resources.size() == 2);
    CHECK(beside.resources[0]->any == "1");
    CHECK(beside.resources[1]->any == "bad");
    say(XdsType::kEndpoint, names, good.version, beside.nonce, "no");
    const Response restored = take(XdsType::kEndpoint);
    CHECK(restored.version == good.version);
    CHECK(restored.resources.size() == 2);
    ack(restored, names);
    CHECK_FALSE(next());
  }

  // If the ACK were of all that was sent, a=bad would be the last good content after it.
  TEST_CASE_FIXTURE(SotwFixture, "an ACK behind a refusal is of its own response only") {
    const std::vector<std::string> names{"a", "b"};
    put(XdsType::kEndpoint, {endpoints("a", "1"), endpoints("b", "1")});
    say(XdsType::kEndpoint, names);
    const Response good = take(XdsType::kEndpoint);
    ack(good, names);
    put(XdsType::kEndpoint, {endpoints("a", "bad"), endpoints("b", "1")});
    const Response bad = take(XdsType::kEndpoint);
    put(XdsType::kEndpoint, {endpoints("a", "bad"), endpoints("b", "2")});
    const Response other = take(XdsType::kEndpoint);
    CHECK(say(XdsType::kEndpoint, names, good.version, bad.nonce, "no") == Effect::kNack);
    CHECK(ack(other, names) == Effect::kAck);
    CHECK_FALSE(session.acknowledged(XdsType::kEndpoint)->find("a"));
    REQUIRE(session.last_good(XdsType::kEndpoint)->find("a"));
    CHECK(session.last_good(XdsType::kEndpoint)->find("a")->any == "1");
    const Response again = take(XdsType::kEndpoint);
    CHECK(again.resources.size() == 2);
    say(XdsType::kEndpoint, names, other.version, again.nonce, "no");
    const Response restored = take(XdsType::kEndpoint);
    REQUIRE(restored.resources.size() == 2);
    CHECK(restored.resources[0]->any == "1");
    CHECK(restored.resources[1]->any == "2");
  }

  // Envoy applied m, which it was not sent again. Without a note of it, x would go first.
  TEST_CASE_FIXTURE(SotwFixture, "clusters that a refused listener names stay until the next ACK") {
    const auto listener = [](const std::string& name, const std::string& bytes,
                             const std::string& to) {
      return resource(XdsType::kListener, name, bytes, {{XdsType::kCluster, to}});
    };
    put(XdsType::kCluster, {cluster("a", "1"), cluster("x", "1")});
    put(XdsType::kListener, {listener("l", "1", "a")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kListener, {});
    const Response good = take(XdsType::kListener);
    ack(good);
    put(XdsType::kListener, {listener("l", "bad", "a"), listener("m", "1", "x")});
    say(XdsType::kListener, {}, good.version, take(XdsType::kListener).nonce, "no");
    CHECK(take(XdsType::kListener).version == good.version);  // it is not answered yet
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("l", "2", "a")});
    put(XdsType::kCluster, {cluster("a", "1")});
    const Response later = take(XdsType::kListener);
    CHECK_FALSE(next());
    ack(later);
    CHECK(take(XdsType::kCluster).resources.size() == 1);
  }

  // --- delta ---

  TEST_CASE_FIXTURE(DeltaFixture,
                    "after a refusal old resources are sent again, and new ones wait") {
    put(kCds, {cluster("a", "1"), cluster("c", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "bad"), cluster("b", "1"), cluster("c", "1")});
    Response refused;
    CHECK(take(kCds, &refused) == "a=bad b=1");
    CHECK(nack(refused) == Effect::kNack);
    CHECK(session.state(kCds).state == SyncState::kStale);
    CHECK(settle(kCds) == "a=1");  // b may have been applied: it is not gone
    CHECK(session.state(kCds).nack_detail == "no such thing");
    SUBCASE("resources outside the response continue") {
      put(kCds, {cluster("a", "bad"), cluster("b", "1"), cluster("c", "2")});
      CHECK(settle(kCds) == "c=2");
      CHECK(session.state(kCds).state == SyncState::kStale);
    }
    SUBCASE("resources removed meanwhile are removed, applied or not") {
      put(kCds, {cluster("a", "bad"), cluster("c", "1")});
      CHECK(settle(kCds) == "a=bad -b");
    }
    SUBCASE("it is tried again when one of its inputs changes") {
      put(kCds, {cluster("a", "2"), cluster("b", "1"), cluster("c", "1")});
      CHECK(settle(kCds) == "a=2 b=1");
      CHECK(session.state(kCds).state == SyncState::kSynced);
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(DeltaFixture,
                    "a refused last good resource stays and is not sent a third time") {
    put(kCds, {cluster("a", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "bad")});
    Response response;
    take(kCds, &response);
    nack(response);
    CHECK(take(kCds, &response) == "a=1");
    nack(response);
    CHECK_FALSE(next());
    CHECK_FALSE(session.emptied());
  }

  // If it counted as delivered, the proxy would keep what the first response had in its place.
  TEST_CASE_FIXTURE(DeltaFixture, "good content that is refused beside bad content is sent again") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "bad"), cluster("b", "1")});
    Response response;
    CHECK(take(kCds, &response) == "a=bad");
    nack(response);
    put(kCds, {cluster("a", "bad"), cluster("b", "bad")});
    CHECK(take(kCds, &response) == "a=1 b=bad");
    nack(response);
    CHECK(settle(kCds) == "a=1 b=1");
    CHECK_FALSE(next());
  }

  // If the ACK ended the memory of a=1, nothing would be sent after the second refusal.
  TEST_CASE_FIXTURE(DeltaFixture,
                    "the last good content comes back after an ACK between refusals") {
    put(kCds, {cluster("a", "1"), cluster("b", "1"), cluster("c", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "bad"), cluster("b", "1"), cluster("c", "1")});
    Response bad, other, again;
    CHECK(take(kCds, &bad) == "a=bad");
    put(kCds, {cluster("a", "bad"), cluster("b", "2"), cluster("c", "1")});
    CHECK(take(kCds, &other) == "b=2");
    CHECK(nack(bad) == Effect::kNack);
    CHECK(ack(other) == Effect::kAck);
    CHECK(session.last_good(kCds)->version() ==
          ResourceSet::make({cluster("a", "1"), cluster("b", "2"), cluster("c", "1")})->version());
    CHECK(take(kCds, &again) == "a=bad b=2 c=1");
    nack(again);
    CHECK(settle(kCds) == "a=1 b=2 c=1");
    CHECK_FALSE(next());
  }

  // Envoy applied m. Without a note of it, x would go first.
  TEST_CASE_FIXTURE(DeltaFixture,
                    "clusters that a refused listener names stay until it is replaced") {
    constexpr XdsType kLds = XdsType::kListener;
    const auto listener = [](const std::string& name, const std::string& bytes,
                             const std::string& to) {
      return resource(kLds, name, bytes, {{kCds, to}});
    };
    put(kCds, {cluster("a", "1"), cluster("x", "1")});
    put(kLds, {listener("l", "1", "a")});
    ask(kCds);
    settle(kCds);
    ask(kLds);
    settle(kLds);
    put(kLds, {listener("l", "bad", "a"), listener("m", "1", "x")});
    Response refused;
    CHECK(take(kLds, &refused) == "l=bad m=1");
    nack(refused);
    CHECK(settle(kLds) == "l=1");
    sets[index_of(kLds)] = ResourceSet::make({listener("l", "2", "a")});
    put(kCds, {cluster("a", "1")});
    CHECK(settle(kLds) == "l=2 -m");
    CHECK(settle(kCds) == "-x");
    CHECK_FALSE(next());
  }
}
