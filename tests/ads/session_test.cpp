// A state-of-the-world session handles nonces, subscriptions, NACKs and the order of types.
#include "ads/session.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "ads/session_fixture.hpp"

using namespace osm;
using namespace osm::ads_test;
using ads::ResourceSet;
using ads::Session;
using Effect = Session::Effect;

namespace {

struct Fixture : SessionFixture {
  Fixture() : SessionFixture(XdsVariant::kSotw) {}

  Effect say(XdsType type, std::vector<std::string> names, std::string version = "",
             std::string nonce = "", std::optional<std::string> error = {}) {
    return session.on_request(
        SentRequest{type, std::move(version), std::move(nonce), std::move(names), std::move(error)}
            .view());
  }
  Response take(XdsType type) {
    auto response = next();
    REQUIRE(response);
    REQUIRE(response->type == type);
    return *response;
  }
  Effect ack(const Response& r, std::vector<std::string> names = {}) {
    return say(r.type, std::move(names), r.version, r.nonce);
  }
};

}  // namespace

TEST_SUITE("ads::Session") {
  TEST_CASE_FIXTURE(Fixture, "every type is answered when asked, whatever is unanswered") {
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kSecret, {resource(XdsType::kSecret, "own", "key")});
    put(XdsType::kEndpoint, {endpoints("a", "e")});
    say(XdsType::kCluster, {});
    take(XdsType::kCluster);
    say(XdsType::kSecret, {"own"});
    say(XdsType::kEndpoint, {"a"});
    take(XdsType::kSecret);
    take(XdsType::kEndpoint);
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "one write is in flight at a time") {
    say(XdsType::kCluster, {});
    say(XdsType::kListener, {});
    REQUIRE(session.next_response(now));
    CHECK_FALSE(session.next_response(now));
    session.on_write_done();
    CHECK(session.next_response(now));
  }

  TEST_CASE_FIXTURE(Fixture, "a stale nonce is ignored and leaves the subscription untouched") {
    put(XdsType::kEndpoint, {endpoints("a", "1"), endpoints("b", "1")});
    say(XdsType::kEndpoint, {"a"});
    const Response first = take(XdsType::kEndpoint);
    put(XdsType::kEndpoint, {endpoints("a", "2"), endpoints("b", "1")});
    take(XdsType::kEndpoint);
    CHECK(say(XdsType::kEndpoint, {"a", "b"}, first.version, first.nonce) == Effect::kStale);
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "an empty nonce twice adds names; their order does not matter") {
    put(XdsType::kSecret,
        {resource(XdsType::kSecret, "own", "key"), resource(XdsType::kSecret, "root", "ca")});
    say(XdsType::kSecret, {"own"});
    take(XdsType::kSecret);
    CHECK(say(XdsType::kSecret, {"root", "own"}) == Effect::kSubscription);
    const Response rest = take(XdsType::kSecret);
    REQUIRE(rest.resources.size() == 1);
    CHECK(rest.resources[0]->name == "root");
    ack(rest, {"own", "root"});
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "an unsubscribed response needs no ACK") {
    put(XdsType::kSecret, {resource(XdsType::kSecret, "own", "key")});
    say(XdsType::kSecret, {"own"}, "of an earlier stream");
    const Response sent = take(XdsType::kSecret);
    CHECK_FALSE(session.settled());
    // Seen of Envoy whose last cluster was removed meanwhile: "Ignoring unwatched type URL".
    say(XdsType::kSecret, {}, "of an earlier stream", "");
    say(XdsType::kSecret, {}, "of an earlier stream", sent.nonce);
    CHECK(session.settled());
    CHECK_FALSE(session.unanswered());
    say(XdsType::kSecret, {"own"}, "of an earlier stream", sent.nonce);
    take(XdsType::kSecret);
    CHECK_FALSE(session.settled());
  }

  TEST_CASE_FIXTURE(Fixture, "no names mean everything for CDS and LDS, nothing for the others") {
    put(XdsType::kEndpoint, {endpoints("a", "1")});
    say(XdsType::kEndpoint, {});
    CHECK_FALSE(next());
    say(XdsType::kListener, {});
    CHECK(take(XdsType::kListener).resources.empty());
  }

  // Envoy keeps the version of route configurations that it dropped.
  TEST_CASE_FIXTURE(Fixture, "routes that a proxy dropped are sent after it reconnects") {
    const EncodedPtr without = resource(XdsType::kListener, "l", "tcp");
    const EncodedPtr with = resource(XdsType::kListener, "l", "http", {{XdsType::kRoute, "r"}});
    const EncodedPtr route = resource(XdsType::kRoute, "r", "1");
    put(XdsType::kListener, {with});
    put(XdsType::kRoute, {route});
    say(XdsType::kListener, {});
    ack(take(XdsType::kListener));
    say(XdsType::kRoute, {"r"});
    const Response routes = take(XdsType::kRoute);
    ack(routes, {"r"});
    put(XdsType::kRoute, {});
    put(XdsType::kListener, {without});
    ack(take(XdsType::kListener));
    say(XdsType::kRoute, {}, routes.version, routes.nonce);
    put(XdsType::kRoute, {route});
    put(XdsType::kListener, {with});
    const Response listeners = take(XdsType::kListener);
    ack(listeners);
    CHECK_FALSE(next());  // the stream breaks before the routes are asked for

    Session other(XdsVariant::kSotw, pool, session.doubts());
    other.set_resources(sets);
    other.on_request(SentRequest{XdsType::kListener, listeners.version}.view());
    other.on_request(SentRequest{XdsType::kRoute, routes.version, "", {"r"}}.view());
    const auto response = other.next_response(now);
    REQUIRE(response);
    CHECK(response->type == XdsType::kRoute);
    CHECK(response->resources.size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "an ACK of an overtaken response counts if it has its version") {
    put(XdsType::kEndpoint, {endpoints("a", "1")});
    say(XdsType::kEndpoint, {"a"});
    std::vector<Response> sent;
    for (std::uint64_t generation : {1, 2, 3}) {
      put(XdsType::kEndpoint, {endpoints("a", std::to_string(generation))});
      sent.push_back(session.next_response(now, generation).value());
      session.on_write_done();
    }
    CHECK(say(XdsType::kEndpoint, {"a"}, "", sent[0].nonce) == Effect::kStale);
    CHECK(session.confirmed(XdsType::kEndpoint) == 0);
    CHECK(ack(sent[1], {"a"}) == Effect::kStale);
    CHECK(session.confirmed(XdsType::kEndpoint) == 2);
    CHECK(ack(sent[2], {"a"}) == Effect::kAck);
    CHECK(session.confirmed(XdsType::kEndpoint) == 3);
  }

  TEST_CASE_FIXTURE(Fixture, "a changed cluster is followed by its endpoints, changed or not") {
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kEndpoint, {endpoints("a", "e"), endpoints("b", "e")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kEndpoint, {"a", "b"});
    const Response endpoints_before = take(XdsType::kEndpoint);
    ack(endpoints_before, {"a", "b"});
    put(XdsType::kCluster, {cluster("a", "2"), cluster("b", "1")});
    take(XdsType::kCluster);
    const Response again = take(XdsType::kEndpoint);
    REQUIRE(again.resources.size() == 1);
    CHECK(again.resources[0]->name == "a");
    CHECK(again.nonce != endpoints_before.nonce);
    CHECK(again.version == endpoints_before.version);
  }

  TEST_CASE_FIXTURE(Fixture, "after a NACK the last good content comes back and the bad is held") {
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

  TEST_CASE_FIXTURE(Fixture, "content that was good and is refused too is not sent a third time") {
    put(XdsType::kListener, {resource(XdsType::kListener, "l", "1")});
    say(XdsType::kListener, {});
    const Response good = take(XdsType::kListener);
    ack(good);
    put(XdsType::kListener, {resource(XdsType::kListener, "l", "2")});
    for (int i = 0; i < 2; ++i)
      say(XdsType::kListener, {}, good.version, take(XdsType::kListener).nonce, "no");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "removed clusters stay until the listener without them is acknowledged") {
    const auto listener = [](const std::string& to) {
      return resource(XdsType::kListener, "l", "to" + to, {{XdsType::kCluster, to}});
    };
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kListener, {listener("b")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kListener, {});
    ack(take(XdsType::kListener));
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("a")});
    put(XdsType::kCluster, {cluster("a", "1")});
    const Response changed_listener = take(XdsType::kListener);  // b stays: CDS has nothing to say
    CHECK_FALSE(next());
    SUBCASE("by an ACK") { ack(changed_listener); }
    SUBCASE("or until the bound passed") {
      REQUIRE(session.deadline());
      now = *session.deadline();
    }
    CHECK(take(XdsType::kCluster).resources.size() == 1);
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "routes that start to name a new cluster wait until it is warm") {
    const auto route = [](const std::string& name, std::vector<std::string> to) {
      std::vector<ads::EncodedResource::Reference> references;
      for (const std::string& cluster : to) references.push_back({XdsType::kCluster, cluster});
      return resource(XdsType::kRoute, name, name + std::to_string(to.size()), references);
    };
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kRoute, {route("r", {"a"}), route("other", {"a"}), route("later", {"a", "b"})});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kRoute, {"other", "r"});
    ack(take(XdsType::kRoute), {"other", "r"});
    sets[index_of(XdsType::kRoute)] =
        ResourceSet::make({route("r", {"a", "b"}), resource(XdsType::kRoute, "other", "new"),
                           route("later", {"a", "b"})});
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    const Response clusters = take(XdsType::kCluster);
    // A resource that names no new cluster is sent, and so is an answer to a request.
    const Response others = take(XdsType::kRoute);
    REQUIRE(others.resources.size() == 1);
    CHECK(others.resources[0]->name == "other");
    ack(others, {"other", "r"});
    say(XdsType::kRoute, {"later", "other", "r"}, others.version, others.nonce);
    const Response asked = take(XdsType::kRoute);
    REQUIRE(asked.resources.size() == 1);
    CHECK(asked.resources[0]->name == "later");
    ack(asked, {"later", "other", "r"});
    CHECK_FALSE(next());
    SUBCASE("as its acknowledgement says") { ack(clusters); }
    SUBCASE("for five seconds at most") {
      now += Session::kWarmingBound - std::chrono::milliseconds(1);
      CHECK_FALSE(next());
      REQUIRE(session.deadline());
      now = *session.deadline();
    }
    const Response held = take(XdsType::kRoute);
    REQUIRE(held.resources.size() == 1);
    CHECK(held.resources[0]->name == "r");
    CHECK(held.version == sets[index_of(XdsType::kRoute)]->version());
    CHECK_FALSE(next());
    CHECK_FALSE(session.deadline());
  }

  TEST_CASE_FIXTURE(Fixture, "routes wait for their own clusters, also beside a steady change") {
    int last = 0;  // the cluster that the route names
    const auto name_of = [](int number) { return "c" + std::to_string(number); };
    const auto change = [&] {
      ++last;
      std::vector<EncodedPtr> clusters;
      for (int number = 0; number <= last; ++number)
        clusters.push_back(cluster(name_of(number), ""));
      sets[index_of(XdsType::kRoute)] = ResourceSet::make(
          {resource(XdsType::kRoute, "r", name_of(last), {{XdsType::kCluster, name_of(last)}})});
      put(XdsType::kCluster, std::move(clusters));
    };
    const auto sent_route = [&] {
      const auto response = next();
      REQUIRE(response);
      REQUIRE(response->type == XdsType::kRoute);
      return response->resources.at(0)->any;
    };
    change();
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kRoute, {"r"});
    ack(take(XdsType::kRoute), {"r"});
    change();
    const Response first = take(XdsType::kCluster);
    CHECK_FALSE(next());
    SUBCASE("an overtaken acknowledgement ends the wait for the clusters that it is of") {
      const std::string awaited = sets[index_of(XdsType::kRoute)]->find("r")->any;
      const ads::ResourceSetPtr routes = sets[index_of(XdsType::kRoute)];
      change();
      const Response second = take(XdsType::kCluster);
      CHECK_FALSE(next());
      ack(first);
      CHECK_FALSE(next());  // it names the newest cluster
      sets[index_of(XdsType::kRoute)] = routes;
      session.set_resources(sets);
      CHECK(sent_route() == awaited);
      ack(second);
    }
    SUBCASE("a cluster counts as warm after five seconds, a newer one does not") {
      const ads::ResourceSetPtr routes = sets[index_of(XdsType::kRoute)];
      now += std::chrono::seconds(4);
      change();
      take(XdsType::kCluster);
      REQUIRE(session.deadline());
      now = *session.deadline();
      CHECK_FALSE(next());
      sets[index_of(XdsType::kRoute)] = routes;
      session.set_resources(sets);
      CHECK(sent_route() == routes->find("r")->any);
    }
    SUBCASE("a route waits for eight seconds at most") {
      const SteadyTime began = now;
      for (int second = 1; second < 8; ++second) {
        now = began + std::chrono::seconds(second);
        change();
        take(XdsType::kCluster);
        CHECK_FALSE(next());
      }
      REQUIRE(session.deadline());
      while (*session.deadline() < began + Session::kHeldBound) {
        now = *session.deadline();
        CHECK_FALSE(next());
      }
      CHECK(*session.deadline() == began + Session::kHeldBound);
      now = *session.deadline();
      CHECK(sent_route() == name_of(last));
    }
  }

  TEST_CASE_FIXTURE(Fixture, "what a route had before it began to wait is confirmed meanwhile") {
    const auto route = [](const std::string& name, const std::string& to) {
      return resource(XdsType::kRoute, name, name + to, {{XdsType::kCluster, to}});
    };
    const auto take_at = [&](XdsType type, std::uint64_t generation) {
      const auto response = session.next_response(now, generation);
      REQUIRE(response);
      REQUIRE(response->type == type);
      session.on_write_done();
      return *response;
    };
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kRoute, {route("r", "a"), route("other", "a")});
    say(XdsType::kCluster, {});
    ack(take_at(XdsType::kCluster, 1));
    say(XdsType::kRoute, {"other", "r"});
    ack(take_at(XdsType::kRoute, 1), {"other", "r"});
    CHECK_FALSE(session.next_response(now, 2));  // nothing of this proxy changed
    put(XdsType::kRoute, {route("r", "c"), route("other", "b")});
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1"), cluster("c", "1")});
    const Response clusters = take_at(XdsType::kCluster, 3);
    ack(take_at(XdsType::kRoute, 3), {"other", "r"});
    CHECK(session.confirmed(XdsType::kRoute) == 2);
    CHECK_FALSE(session.settled());
    ack(clusters);
    ack(take_at(XdsType::kRoute, 3), {"other", "r"});
    CHECK(session.confirmed(XdsType::kRoute) == 3);
  }

  // The cluster as it was gets them too, and may not accept their certificates.
  TEST_CASE_FIXTURE(Fixture, "endpoints that come with a change of their cluster follow its ACK") {
    using Addresses = std::vector<std::string>;
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kEndpoint, {assignment("a", {"10.0.0.1", "10.0.0.2"})});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kEndpoint, {"a"});
    ack(take(XdsType::kEndpoint), {"a"});
    put(XdsType::kCluster, {cluster("a", "2")});
    const auto change = [&](const Addresses& addresses) {
      put(XdsType::kEndpoint, {assignment("a", addresses)});
      const Response clusters = take(XdsType::kCluster);
      const Response first = take(XdsType::kEndpoint);
      REQUIRE(first.resources.size() == 1);
      ack(first, {"a"});
      CHECK_FALSE(next());
      return std::pair(clusters, addresses_in(*first.resources[0]));
    };
    const auto rest = [&] { return addresses_in(*take(XdsType::kEndpoint).resources[0]); };
    SUBCASE("added ones") {
      const auto [clusters, at_once] = change({"10.0.0.1", "10.0.0.2", "10.0.0.3"});
      CHECK(at_once == Addresses{"10.0.0.1", "10.0.0.2"});
      CHECK_FALSE(session.at_rest(XdsType::kEndpoint));
      SUBCASE("") { ack(clusters); }
      SUBCASE("or come after five seconds") {
        now += Session::kWarmingBound - std::chrono::milliseconds(1);
        CHECK_FALSE(next());
        REQUIRE(session.deadline());
        now = *session.deadline();
      }
      CHECK(rest() == Addresses{"10.0.0.1", "10.0.0.2", "10.0.0.3"});
    }
    SUBCASE("and nothing else") {
      const auto [clusters, at_once] = change({"10.0.0.2", "10.0.0.3"});
      CHECK(at_once == Addresses{"10.0.0.2"});
      ack(clusters);
      CHECK(rest() == Addresses{"10.0.0.2", "10.0.0.3"});
    }
    SUBCASE("not if only some are removed") {
      CHECK(change({"10.0.0.2"}).second == Addresses{"10.0.0.2"});
    }
    SUBCASE("not if nothing else would be left") {
      CHECK(change({"10.0.0.3"}).second == Addresses{"10.0.0.3"});
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a proxy that renews a route while a cluster warms gets the route it holds") {
    const auto route = [](const std::string& to) {
      return resource(XdsType::kRoute, "r", "to " + to, {{XdsType::kCluster, to}});
    };
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kRoute, {route("a")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kRoute, {"r"});
    const Response first = take(XdsType::kRoute);
    ack(first, {"r"});
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kRoute, {route("b")});
    const Response clusters = take(XdsType::kCluster);
    say(XdsType::kRoute, {"r"}, first.version, first.nonce);  // the subscription again
    const Response renewed = take(XdsType::kRoute);
    REQUIRE(renewed.resources.size() == 1);
    CHECK(renewed.resources[0]->any == "to a");
    ack(renewed, {"r"});
    CHECK_FALSE(next());
    ack(clusters);
    CHECK(take(XdsType::kRoute).resources[0]->any == "to b");
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a listener that starts to name a new cluster waits until it is warm") {
    const auto listener = [](const std::string& to) {
      return resource(XdsType::kListener, "l", "to" + to, {{XdsType::kCluster, to}});
    };
    put(XdsType::kCluster, {cluster("a", "1")});
    const EncodedPtr other = resource(XdsType::kListener, "other", "1");
    put(XdsType::kListener, {listener("a"), other});
    say(XdsType::kCluster, {});
    const Response first = take(XdsType::kCluster);
    say(XdsType::kListener, {});
    const Response answer = take(XdsType::kListener);  // asked for: waits for nothing
    ack(first);
    ack(answer);
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("b"), other});
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    const Response clusters = take(XdsType::kCluster);
    CHECK_FALSE(next());
    // The others do not wait with it.
    put(XdsType::kListener, {listener("b"), resource(XdsType::kListener, "other", "2")});
    const Response others = take(XdsType::kListener);
    CHECK(others.resources.at(0)->any == "toa");
    CHECK(others.resources.at(1)->any == "2");
    ack(others);
    ack(clusters);
    const Response all = take(XdsType::kListener);
    CHECK(all.resources.at(0)->any == "tob");
    CHECK(all.version == sets[index_of(XdsType::kListener)]->version());
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "a refused listener that stays for a wait says nothing of the next") {
    const auto listener = [](const std::string& bytes, const std::string& to) {
      return resource(XdsType::kListener, "l", bytes, {{XdsType::kCluster, to}});
    };
    const auto refuse = [&](const Response& response, const std::string& held) {
      CHECK(say(XdsType::kListener, {}, held, response.nonce, "no such thing") == Effect::kNack);
    };
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kListener, {listener("good", "a")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    say(XdsType::kListener, {});
    const Response good = take(XdsType::kListener);
    ack(good);
    put(XdsType::kListener, {listener("bad", "a")});
    const Response bad = take(XdsType::kListener);
    // Not answered yet when the next one comes, which waits for its cluster.
    sets[index_of(XdsType::kListener)] =
        ResourceSet::make({listener("next", "b"), resource(XdsType::kListener, "other", "1")});
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    const Response clusters = take(XdsType::kCluster);
    const Response beside = take(XdsType::kListener);
    CHECK(beside.resources.at(0)->any == "bad");
    refuse(bad, good.version);
    refuse(beside, good.version);
    const Response next_one = take(XdsType::kListener);
    CHECK(next_one.version == sets[index_of(XdsType::kListener)]->version());
    ack(next_one);
    ack(clusters);
    CHECK_FALSE(next());
    CHECK(session.settled());
  }

  TEST_CASE_FIXTURE(Fixture, "an empty CDS is answered when asked and never pushed") {
    put(XdsType::kCluster, {cluster("a", "1")});
    say(XdsType::kCluster, {});
    ack(take(XdsType::kCluster));
    put(XdsType::kCluster, {});
    CHECK_FALSE(next());
    CHECK(session.emptied());
  }

  TEST_CASE_FIXTURE(Fixture, "claims are believed together or not at all") {
    put(XdsType::kCluster, {cluster("a", "1")});
    put(XdsType::kEndpoint, {endpoints("a", "e")});
    const std::string clusters = sets[index_of(XdsType::kCluster)]->version();
    const std::string assignments = sets[index_of(XdsType::kEndpoint)]->version();
    SUBCASE("both current: silence") {
      say(XdsType::kCluster, {}, clusters, "7");
      say(XdsType::kEndpoint, {"a"}, assignments);
      CHECK_FALSE(next());
    }
    SUBCASE("clusters are old: the endpoints are sent although they are current") {
      say(XdsType::kCluster, {}, "0123");
      say(XdsType::kEndpoint, {"a"}, assignments);
      take(XdsType::kCluster);
      take(XdsType::kEndpoint);
    }
    SUBCASE("in doubt since the last stream: nothing is believed") {
      ads::Doubts doubts{};
      doubts[index_of(XdsType::kCluster)].unsure = true;
      Session other(XdsVariant::kSotw, pool, doubts);
      other.set_resources(sets);
      other.on_request(SentRequest{XdsType::kCluster, clusters, "", {}, {}}.view());
      CHECK(other.next_response(now));
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a stream keeps what a delta stream left over for the next one") {
    ads::Doubts doubts{};
    doubts[index_of(XdsType::kCluster)].unclaimed = {"a"};
    Session other(XdsVariant::kSotw, pool, doubts);
    put(XdsType::kCluster, {cluster("b", "1")});
    other.set_resources(sets);
    other.on_request(SentRequest{XdsType::kCluster, "", "", {}, {}}.view());
    const auto response = other.next_response(now);
    REQUIRE(response);
    CHECK(response->resources.size() == 1);
    CHECK(response->removed.empty());
    other.on_write_done();
    other.on_request(
        SentRequest{XdsType::kCluster, response->version, response->nonce, {}, {}}.view());
    CHECK(other.settled());
    const std::size_t clusters = index_of(XdsType::kCluster);
    CHECK(other.doubts()[clusters] == doubts[clusters]);
  }

  TEST_CASE_FIXTURE(Fixture, "a removal brings the proxy the new version with one resource") {
    put(XdsType::kEndpoint, {endpoints("a", "1"), endpoints("b", "1")});
    say(XdsType::kEndpoint, {"a", "b"});
    ack(take(XdsType::kEndpoint), {"a", "b"});
    put(XdsType::kEndpoint, {endpoints("a", "1")});
    const Response moved = take(XdsType::kEndpoint);
    CHECK(moved.resources.size() == 1);
    CHECK(moved.version == sets[index_of(XdsType::kEndpoint)]->version());
    ack(moved, {"a"});
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "requests of unknown types and garbage are told apart") {
    ads::Request unknown;
    unknown.type_url = "type.googleapis.com/unknown";
    CHECK(session.on_request(unknown) == Effect::kUnknownType);
    CHECK_FALSE(ads::parse_request("\x0a\xff").ok());
    CHECK(ads::parse_request("").ok());
  }

  TEST_CASE_FIXTURE(Fixture, "names beyond twice the class's are an excess, of any type") {
    const auto excess = [&](std::string_view url, std::size_t names) {
      std::string bytes = "\x22" + std::string(1, static_cast<char>(url.size())) + std::string(url);
      for (std::size_t i = 0; i < names; ++i) bytes += std::string("\x1a\x01n", 3);
      const auto heard = session.on_message(bytes);
      REQUIRE(heard.ok());
      return heard->excess;
    };
    put(XdsType::kEndpoint, {endpoints("a", "1")});
    CHECK(excess(xds_type_url(XdsType::kEndpoint), Session::kSpareNames + 2) == 0);
    CHECK(excess(xds_type_url(XdsType::kEndpoint), Session::kSpareNames + 3) == 1);
    CHECK(excess("type.googleapis.com/unknown", Session::kSpareNames) == 0);
    CHECK(excess("type.googleapis.com/unknown", Session::kSpareNames + 1) == 1);
  }
}
