// A delta session sends changes and removals only, and resumes from what a proxy holds.
//
// Behaviour of delta only. Behaviour of both variants is in session_test.cpp, and whole lives of
// proxies in session_model_test.cpp.
#include <doctest/doctest.h>

#include <deque>

#include "ads/session_fixture.hpp"

using namespace osm;
using namespace osm::ads_test;
using ads::ResourceSet;
using ads::Session;
using Effect = Session::Effect;
using Names = std::vector<std::string>;

namespace {

constexpr XdsType kCds = XdsType::kCluster;
constexpr XdsType kEds = XdsType::kEndpoint;
constexpr XdsType kRds = XdsType::kRoute;

struct Fixture : SessionFixture {
  explicit Fixture(const ads::Doubts& doubts = {}) : SessionFixture(XdsVariant::kDelta, doubts) {}

  Effect say(const SentRequest& request) {
    const Result<Effect> effect = session.on_request(request.delta_view());
    REQUIRE(effect.ok());
    return *effect;
  }
  Effect ask(XdsType type, Names names = {}, std::vector<EncodedPtr> held = {}) {
    SentRequest request{.type = type, .names = std::move(names)};
    for (const EncodedPtr& r : held) request.held[r->name] = ads::resource_version(*r);
    return say(request);
  }
  Effect drop(XdsType type, Names names) {
    return say({.type = type, .dropped = std::move(names)});
  }
  Effect ack(const Response& r) { return say({.type = r.type, .nonce = r.nonce}); }
  Effect nack(const Response& r) {
    return say({.type = r.type, .nonce = r.nonce, .error = "no such thing"});
  }
  // "a=1 b=2 -c": what the next response, which must be of this type, carries and removes.
  std::string take(XdsType type, Response* out = nullptr) {
    auto response = next();
    REQUIRE(response);
    REQUIRE(response->type == type);
    if (out) *out = *response;
    std::string text;
    for (const EncodedPtr& r : response->resources) text += r->name + "=" + r->any + " ";
    for (const std::string& name : response->removed) text += "-" + name + " ";
    return text.empty() ? text : text.substr(0, text.size() - 1);
  }
  // The same, acknowledged.
  std::string settle(XdsType type) {
    Response response;
    std::string text = take(type, &response);
    CHECK(ack(response) == Effect::kAck);
    return text;
  }
  // The proxy has the clusters a and b, and their endpoints.
  void settle_two_clusters() {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    put(kEds, {endpoints("a", "e"), endpoints("b", "e")});
    ask(kCds);
    settle(kCds);
    ask(kEds, {"a", "b"});
    settle(kEds);
  }
};

std::vector<std::string> addresses_of(const std::optional<Response>& response) {
  if (!response || response->type != kEds || response->resources.size() != 1) return {};
  return SessionFixture::addresses_in(*response->resources[0]);
}

EncodedPtr route(const std::string& name, const std::string& bytes) {
  return resource(kRds, name, bytes);
}
EncodedPtr route_to(const std::string& cluster) {
  return resource(kRds, "r", "to" + cluster, {{kCds, cluster}});
}

}  // namespace

TEST_SUITE("ads::Session delta") {
  TEST_CASE_FIXTURE(Fixture, "endpoints that come with a change of their cluster follow its ACK") {
    settle_two_clusters();
    put(kEds, {assignment("a", {"10.0.0.1"}), endpoints("b", "e")});
    settle(kEds);
    put(kCds, {cluster("a", "2"), cluster("b", "1")});
    put(kEds, {assignment("a", {"10.0.0.1", "10.0.0.2"}), endpoints("b", "e")});
    Response clusters;
    CHECK(take(kCds, &clusters) == "a=2");
    const auto at_once = next();
    CHECK(addresses_of(at_once) == Names{"10.0.0.1"});
    ack(*at_once);
    CHECK_FALSE(next());
    ack(clusters);
    CHECK(addresses_of(next()) == Names{"10.0.0.1", "10.0.0.2"});
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "only what changed is sent, and what is gone is named") {
    put(kCds, {cluster("a", "1"), cluster("b", "1"), cluster("c", "1")});
    ask(kCds);
    CHECK(settle(kCds) == "a=1 b=1 c=1");
    put(kCds, {cluster("a", "1"), cluster("b", "2"), cluster("d", "1")});
    CHECK(settle(kCds) == "b=2 d=1 -c");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "a fresh proxy is told even that there is nothing") {
    ask(kCds);
    CHECK(settle(kCds).empty());
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "a changed cluster is followed by its endpoints, though none asks") {
    settle_two_clusters();
    put(kCds, {cluster("a", "2"), cluster("b", "1")});
    CHECK(take(kCds) == "a=2");
    CHECK(take(kEds) == "a=e");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "claimed resources are not sent, each judged by itself") {
    put(kCds, {cluster("a", "1"), cluster("b", "2")});
    put(kEds, {endpoints("a", "e"), endpoints("b", "e")});
    ask(kCds, {}, {cluster("a", "1"), cluster("b", "1"), cluster("gone", "1")});
    SUBCASE("not the endpoints of a cluster that was sent before they were claimed") {
      CHECK(take(kCds) == "b=2");
      ask(kEds, {"a", "b"}, sets[index_of(kEds)]->resources());
      CHECK(take(kEds) == "b=e");
    }
    SUBCASE("nor after") {
      ask(kEds, {"a", "b"}, sets[index_of(kEds)]->resources());
      CHECK(take(kCds) == "b=2");
      CHECK(take(kEds) == "b=e");
    }
    CHECK_FALSE(next());
    now += Session::kExpandedBound;  // it asks for no listeners
    CHECK(take(kCds) == "-gone");
  }

  TEST_CASE_FIXTURE(Fixture, "a current proxy that reconnects is sent nothing") {
    put(kCds, {cluster("a", "1")});
    put(kEds, {endpoints("a", "e")});
    ask(kCds, {}, sets[index_of(kCds)]->resources());
    ask(kEds, {"a"}, sets[index_of(kEds)]->resources());
    CHECK_FALSE(next());
    CHECK(session.state(kCds).last_applied_version == sets[index_of(kCds)]->version());
  }

  // An answer at once would remove endpoints before their cluster, and would remove routes.
  TEST_CASE_FIXTURE(Fixture, "a claimed name that is gone is not answered as a requested one") {
    SUBCASE("endpoints are removed once, after their cluster") {
      put(kCds, {cluster("a", "1")});
      put(kEds, {endpoints("a", "e")});
      ask(kCds, {}, {cluster("a", "1"), cluster("gone", "1")});
      ask(kEds, {"a", "gone"}, {endpoints("a", "e"), endpoints("gone", "e")});
      CHECK_FALSE(next());
      now += Session::kExpandedBound;
      Response clusters;
      CHECK(take(kCds, &clusters) == "-gone");
      CHECK_FALSE(next());
      ack(clusters);
      SUBCASE("unless the proxy drops them itself") { drop(kEds, {"gone"}); }
      SUBCASE("if the proxy does not drop them itself") { CHECK(settle(kEds) == "-gone"); }
    }
    SUBCASE("endpoints that vanish later wait for their cluster too") {
      put(kCds, {cluster("a", "1")});
      put(kEds, {endpoints("a", "e")});
      ask(kCds, {}, sets[index_of(kCds)]->resources());
      ask(kEds, {"a"}, sets[index_of(kEds)]->resources());
      CHECK_FALSE(next());
      put(kEds, {});
    }
    SUBCASE("routes are not removed") {
      put(kRds, {route("a", "1")});
      ask(kRds, {"a", "gone"}, {route("a", "1"), route("gone", "1")});
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "after a stream that ended in doubt no claim counts") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    ask(kCds);
    take(kCds);
    const ads::Doubts doubts = session.doubts();
    CHECK(doubts[index_of(kCds)].unclaimed == Names{"a", "b"});
    put(kCds, {cluster("a", "1")});
    Session other(XdsVariant::kDelta, pool, doubts);
    other.set_resources(sets);
    SentRequest request{.type = kCds};
    request.held["a"] = ads::resource_version(*sets[index_of(kCds)]->find("a"));
    REQUIRE(other.on_request(request.delta_view()).ok());
    auto response = other.next_response(now);
    REQUIRE(response);
    CHECK(response->resources == sets[index_of(kCds)]->resources());
    other.on_write_done();
    response = other.next_response(now + Session::kExpandedBound);  // it asks for no listeners
    REQUIRE(response);
    CHECK(response->removed == Names{"b"});  // it may have come, unclaimed
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a good member of a refused response is removed, also on another stream") {
    put(kCds, {cluster("a", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "bad"), cluster("new", "1")});
    Response refused;
    take(kCds, &refused);
    CHECK(nack(refused) == Effect::kNack);  // Envoy applied "new", and does not claim it
    CHECK(settle(kCds) == "a=1");
    put(kCds, {cluster("a", "bad")});
    Session other(XdsVariant::kDelta, pool, session.doubts());
    other.set_resources(sets);
    SentRequest request{.type = kCds};
    request.held["a"] = ads::resource_version(*cluster("a", "1"));
    REQUIRE(other.on_request(request.delta_view()).ok());
    CHECK(other.next_response(now));
    other.on_write_done();
    const auto response = other.next_response(now + Session::kExpandedBound);
    REQUIRE(response);
    CHECK(response->removed == Names{"new"});
  }

  // The proxy applied A and refused B, so that it claims the old version of both.
  TEST_CASE_FIXTURE(Fixture, "a claim that the last stream's refusal contradicts does not count") {
    const auto listener = [](const std::string& name, const std::string& bytes) {
      return resource(XdsType::kListener, name, bytes);
    };
    const std::vector<EncodedPtr> held{listener("a", "shut"), listener("b", "1"),
                                       listener("c", "1")};
    put(XdsType::kListener, {listener("a", "open"), listener("b", "bad"), listener("c", "1")});
    ask(XdsType::kListener, {}, held);  // another replica had configured it
    Response refused;
    CHECK(take(XdsType::kListener, &refused) == "a=open b=bad");
    CHECK(nack(refused) == Effect::kNack);
    put(XdsType::kListener, {listener("a", "open"), listener("b", "bad"), listener("c", "2")});
    CHECK(settle(XdsType::kListener) == "c=2");
    CHECK_FALSE(session.doubts()[index_of(XdsType::kListener)].unsure);
    CHECK(session.doubts()[index_of(XdsType::kListener)].unclaimed == Names{"a", "b"});

    Session other(XdsVariant::kDelta, pool, session.doubts());
    sets[index_of(XdsType::kListener)] =
        ResourceSet::make({listener("a", "shut"), listener("b", "1"), listener("c", "2")});
    other.set_resources(sets);  // the change was taken back
    SentRequest request{.type = XdsType::kListener};
    for (const EncodedPtr& r : {held[0], held[1], listener("c", "2")})
      request.held[r->name] = ads::resource_version(*r);
    REQUIRE(other.on_request(request.delta_view()).ok());
    const auto response = other.next_response(now);
    REQUIRE(response);
    REQUIRE(response->resources.size() == 2);
    CHECK(response->resources[0]->any == "shut");
    CHECK(response->resources[1]->any == "1");
  }

  // Envoy dropped the cluster and asked for its endpoints anew, when they were on their way.
  TEST_CASE_FIXTURE(Fixture, "endpoints of a cluster in use are not answered as removed") {
    const auto listener = [](const std::string& to) {
      return resource(XdsType::kListener, "l", "to" + to, {{kCds, to}});
    };
    put(XdsType::kListener, {listener("b")});
    settle_two_clusters();
    ask(XdsType::kListener);
    settle(XdsType::kListener);
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("a")});
    sets[index_of(kEds)] = ResourceSet::make({endpoints("a", "e")});
    put(kCds, {cluster("a", "1")});
    ask(kEds, {"b"});
    CHECK(take(kEds) == "b=e");
    CHECK(settle(XdsType::kListener) == "l=toa");
    CHECK(settle(kCds) == "-b");
    CHECK(settle(kEds) == "-b");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "endpoints that are claimed in doubt go after their cluster too") {
    settle_two_clusters();
    put(kEds, {endpoints("a", "2"), endpoints("b", "e")});
    CHECK(take(kEds) == "a=2");  // unanswered
    const ads::Doubts doubts = session.doubts();
    CHECK(doubts[index_of(kEds)].unsure);
    Session other(XdsVariant::kDelta, pool, doubts);
    sets[index_of(kEds)] = ResourceSet::make({endpoints("a", "2")});
    other.set_resources(sets);
    SentRequest clusters{.type = kCds};
    for (const char* name : {"a", "b"})
      clusters.held[name] = ads::resource_version(*cluster(name, "1"));
    SentRequest assignments{.type = kEds, .names = {"a", "b", "x"}};
    for (const char* name : {"a", "b"})
      assignments.held[name] = ads::resource_version(*endpoints(name, "e"));
    REQUIRE(other.on_request(clusters.delta_view()).ok());
    REQUIRE(other.on_request(assignments.delta_view()).ok());
    const auto response = other.next_response(now);
    REQUIRE(response);
    CHECK(response->removed == Names{"x"});  // it waits for this one alone
  }

  TEST_CASE_FIXTURE(Fixture, "each ACK confirms its generation, also while later ones are sent") {
    put(kEds, {endpoints("a", "1")});
    ask(kEds, {"a"});
    std::deque<Response> unanswered;
    const auto send = [&](std::uint64_t generation) {
      put(kEds, {endpoints("a", std::to_string(generation))});
      unanswered.push_back(session.next_response(now, generation).value());
      session.on_write_done();
    };
    const auto answer = [&] {
      ack(unanswered.front());
      unanswered.pop_front();
    };
    send(1);
    send(2);
    for (std::uint64_t generation = 3; generation < 100; ++generation) {
      send(generation);
      answer();
      REQUIRE(session.confirmed(kEds) == generation - 2);
      CHECK(session.unanswered());
      CHECK(session.acknowledged(kEds)->find("a")->any == std::to_string(generation - 2));
    }
    SUBCASE("of many unanswered ones, some ACKs count late") {
      for (std::uint64_t generation = 100; generation < 200; ++generation) send(generation);
      for (int i = 0; i < 95; ++i) answer();
      CHECK(session.confirmed(kEds) > 98);
    }
    SUBCASE("not behind a refusal") {
      send(100);
      CHECK(nack(unanswered.front()) == Effect::kNack);
      unanswered.pop_front();
      answer();
      answer();
      CHECK(session.confirmed(kEds) == 97);
      unanswered.clear();
      send(101);
      answer();
      CHECK(session.confirmed(kEds) == 101);
    }
    while (!unanswered.empty()) answer();
    CHECK(session.confirmed(kEds) >= 99);
    CHECK_FALSE(session.unanswered());
  }

  TEST_CASE_FIXTURE(Fixture, "clusters that only an unanswered listener names stay") {
    const auto listener = [](const std::string& to) {
      return resource(XdsType::kListener, "l", "to" + to, {{kCds, to}});
    };
    put(kCds, {cluster("a", "1"), cluster("b", "1"), cluster("c", "1")});
    put(XdsType::kListener, {listener("a")});
    ask(kCds);
    settle(kCds);
    ask(XdsType::kListener);
    settle(XdsType::kListener);
    put(XdsType::kListener, {listener("b")});
    Response first, second;
    CHECK(take(XdsType::kListener, &first) == "l=tob");
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("c")});
    put(kCds, {cluster("a", "1"), cluster("c", "1")});
    CHECK(take(XdsType::kListener, &second) == "l=toc");
    CHECK_FALSE(next());
    ack(first);
    CHECK_FALSE(next());  // if it refuses the second, it goes on with b
    ack(second);
    CHECK(settle(kCds) == "-b");
    CHECK_FALSE(next());
  }

  // A proxy tells only the versions of its older listeners and routes, and they may name the
  // cluster.
  TEST_CASE_FIXTURE(Fixture,
                    "a claimed cluster that is gone stays for older listeners and routes") {
    constexpr XdsType kLds = XdsType::kListener;
    put(kCds, {cluster("a", "1")});
    put(kEds, {endpoints("a", "e")});
    put(kLds, {resource(kLds, "l", "2", {{kRds, "r"}})});
    put(kRds, {route_to("a")});
    ask(kCds, {}, {cluster("a", "1"), cluster("b", "1")});
    ask(kEds, {"a", "b"}, {endpoints("a", "e"), endpoints("b", "e")});
    CHECK_FALSE(next());
    ask(kLds, {}, {resource(kLds, "l", "1")});
    CHECK(settle(kLds) == "l=2");
    CHECK_FALSE(next());
    ask(kRds, {"r"}, {route_to("b")});
    CHECK(settle(kRds) == "r=toa");
    CHECK(settle(kCds) == "-b");
    CHECK(settle(kEds) == "-b");
    CHECK_FALSE(next());
    CHECK_FALSE(session.deadline());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a claimed route stays while the clusters of the new one are warming") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    put(kEds, {endpoints("a", "e"), endpoints("b", "e")});
    put(kRds, {route_to("b")});
    ask(kCds, {}, {cluster("a", "1")});
    ask(kEds, {"a"}, {endpoints("a", "e")});
    ask(kRds, {"r"}, {route_to("a")});
    Response clusters;
    CHECK(take(kCds, &clusters) == "b=1");
    CHECK_FALSE(next());
    ask(kEds, {"b"});
    CHECK(settle(kEds) == "b=e");
    CHECK_FALSE(next());
    SUBCASE("until they are warm") { ack(clusters); }
    SUBCASE("or for five seconds") { now += Session::kWarmingBound; }
    CHECK(settle(kRds) == "r=tob");
  }

  TEST_CASE("so does a route that is claimed in doubt") {
    ads::Doubts doubts{};
    for (XdsType type : {kCds, kRds}) doubts[index_of(type)].unsure = true;  // an earlier stream's
    Fixture proxy(doubts);
    proxy.put(kCds, {proxy.cluster("a", "1"), proxy.cluster("b", "1")});
    proxy.put(kRds, {route_to("b")});
    proxy.ask(kCds, {}, {proxy.cluster("a", "1")});
    proxy.ask(kRds, {"r"}, {route_to("a")});
    Response clusters;
    CHECK(proxy.take(kCds, &clusters) == "a=1 b=1");
    CHECK_FALSE(proxy.next());
    proxy.ack(clusters);
    CHECK(proxy.settle(kRds) == "r=tob");
  }

  TEST_CASE("a new Envoy gets its listener while a cluster of it warms") {
    ads::Doubts doubts{};
    doubts[index_of(XdsType::kListener)].unclaimed = {"l"};
    Fixture proxy(doubts);
    proxy.put(kCds, {proxy.cluster("a", "1")});
    proxy.put(XdsType::kListener, {resource(XdsType::kListener, "l", "1", {{kCds, "a"}})});
    for (XdsType type : {kCds, XdsType::kListener}) {
      proxy.ask(type);
      CHECK(proxy.take(type) == (type == kCds ? "a=1" : "l=1"));
    }
  }

  // Envoy's requests for clusters wait while one of them is warming, on a new stream too.
  TEST_CASE_FIXTURE(Fixture, "a proxy that asks for clusters last keeps its routes and endpoints") {
    put(kCds, {cluster("b", "1"), cluster("warming", "1")});
    put(kEds, {endpoints("b", "e"), endpoints("warming", "e")});
    put(kRds, {route_to("b"), route("other", "new")});
    // It holds the cluster a too, which has left the mesh. The endpoints may be of a former stream.
    ask(kEds, {"a", "warming"}, {endpoints("a", "e"), endpoints("warming", "e")});
    CHECK(settle(kEds) == "warming=e");
    ask(kRds, {"other", "r"}, {route_to("a"), route("other", "old")});
    CHECK(settle(kRds) == "other=new");
    CHECK_FALSE(next());
    SUBCASE("until the clusters are there") {
      ask(kCds, {}, {cluster("a", "1"), cluster("warming", "1")});
      CHECK(settle(kCds) == "b=1");
      CHECK(settle(kRds) == "r=tob");
    }
    SUBCASE("for eight seconds at most") {
      const SteadyTime began = now;
      CHECK(session.deadline() == began + Session::kWarmingBound);
      now = began + Session::kWarmingBound;
      CHECK(settle(kEds) == "-a");  // the cluster that warms may wait for them
      CHECK(session.deadline() == began + Session::kHeldBound);
      now = began + Session::kHeldBound;
      CHECK(settle(kRds) == "r=tob");
    }
  }

  // A resource that left the mesh while its first response was on the way was never accepted.
  TEST_CASE_FIXTURE(Fixture, "a refused resource that left the mesh withholds no other one") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    ask(kCds);
    settle(kCds);
    ask(kEds, {"a", "b"});
    put(kEds, {endpoints("a", "1"), endpoints("b", "bad")});
    Response first, second;
    CHECK(take(kEds, &first) == "a=1 b=bad");
    sets[index_of(kEds)] = ResourceSet::make({endpoints("a", "2")});
    put(kCds, {cluster("a", "2"), cluster("b", "2")});
    CHECK(settle(kCds) == "a=2 b=2");
    CHECK(take(kEds, &second) == "a=2 b=bad");
    nack(first);
    nack(second);
    CHECK(settle(kEds) == "a=2");
    CHECK(session.settled());
  }

  TEST_CASE_FIXTURE(Fixture, "a requested resource that does not exist is answered as removed") {
    put(kEds, {endpoints("a", "e")});
    ask(kEds, {"a", "x"});
    CHECK(settle(kEds) == "a=e -x");
    CHECK_FALSE(next());
    SUBCASE("and sent when it comes") {
      put(kEds, {endpoints("a", "e"), endpoints("x", "late")});
      CHECK(settle(kEds) == "x=late");
    }
    SUBCASE("each time it is asked for") {
      ask(kEds, {"x"});
      CHECK(settle(kEds) == "-x");
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "a held resource that is requested again is sent again") {
    put(kEds, {endpoints("a", "e"), endpoints("b", "e")});
    ask(kEds, {"a", "b"});
    settle(kEds);
    ask(kEds, {"b"});
    CHECK(settle(kEds) == "b=e");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "an unsubscribed resource is not sent any more") {
    put(kEds, {endpoints("a", "1"), endpoints("b", "1")});
    ask(kEds, {"a", "b"});
    settle(kEds);
    drop(kEds, {"a"});
    put(kEds, {endpoints("a", "2"), endpoints("b", "2")});
    CHECK(settle(kEds) == "b=2");
    put(kEds, {});
    CHECK(settle(kEds) == "-b");
    CHECK_FALSE(next());
  }

  // Envoy reports the removal of a route configuration as an error.
  TEST_CASE_FIXTURE(Fixture, "no removal of a route is sent") {
    put(kRds, {route("a", "1"), route("b", "1"), route("c", "1")});
    ask(kRds, {"a", "b", "c"});
    CHECK(settle(kRds) == "a=1 b=1 c=1");
    put(kRds, {route("a", "1"), route("b", "1")});
    CHECK_FALSE(next());
    put(kRds, {route("a", "2")});
    CHECK(settle(kRds) == "a=2");
    put(kRds, {});
    CHECK_FALSE(next());
    put(kRds, {route("c", "2")});
    CHECK(settle(kRds) == "c=2");
    SUBCASE("except to a proxy that asks again for one that is gone") {
      ask(kRds, {"b"});
      CHECK(settle(kRds) == "-b");
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "endpoints go after the cluster that names them") {
    settle_two_clusters();
    put(kEds, {endpoints("a", "e")});
    CHECK_FALSE(next());
    put(kCds, {cluster("a", "1")});
    Response clusters;
    CHECK(take(kCds, &clusters) == "-b");
    CHECK_FALSE(next());
    ack(clusters);
    SUBCASE("a proxy that lets go of them is told nothing") { drop(kEds, {"b"}); }
    SUBCASE("one that does not is told") { CHECK(settle(kEds) == "-b"); }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "all of a type, and some by name") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    SUBCASE("a first request for names asks for those only") {
      ask(kCds, {"a", "x"});
      CHECK(settle(kCds) == "a=1 -x");
      ask(kCds, {"*"});
      CHECK(settle(kCds) == "b=1");
      drop(kCds, {"*"});
      put(kCds, {cluster("a", "2"), cluster("b", "2")});
      CHECK(settle(kCds) == "a=2");
    }
    SUBCASE("a first request without names goes on beside those that come later") {
      ask(kCds);
      CHECK(settle(kCds) == "a=1 b=1");
      ask(kCds, {"a"});
      CHECK(settle(kCds) == "a=1");
      put(kCds, {cluster("a", "1"), cluster("b", "2")});
      CHECK(settle(kCds) == "b=2");
    }
    SUBCASE("a name that is dropped beside all is said to be there or not") {
      ask(kCds, {"*", "a", "x"});
      CHECK(settle(kCds) == "a=1 b=1 -x");
      drop(kCds, {"a", "x"});
      CHECK(settle(kCds) == "a=1 -x");
    }
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "after a refusal old resources are sent again, and new ones wait") {
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

  TEST_CASE_FIXTURE(Fixture, "a refused last good resource stays and is not sent a third time") {
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

  TEST_CASE_FIXTURE(Fixture, "a refused removal is not repeated") {
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {cluster("a", "1")});
    Response response;
    CHECK(take(kCds, &response) == "-b");
    nack(response);
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "responses are answered by nonce, and names change with any request") {
    put(kEds, {endpoints("a", "1"), endpoints("b", "1")});
    ask(kEds, {"a"});
    Response first;
    take(kEds, &first);
    put(kEds, {endpoints("a", "2"), endpoints("b", "1")});
    Response second;
    take(kEds, &second);
    CHECK(say({.type = kEds, .nonce = first.nonce, .names = {"b"}}) == Effect::kStale);
    CHECK(session.state(kEds).state == SyncState::kPending);
    CHECK(ack(second) == Effect::kAck);
    CHECK(settle(kEds) == "b=1");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "that all clusters vanished is told to who asks, never pushed") {
    put(kCds, {cluster("a", "1")});
    ask(kCds);
    settle(kCds);
    put(kCds, {});
    CHECK_FALSE(next());
    CHECK(session.emptied());
    Session other(XdsVariant::kDelta, pool);
    other.set_resources(sets);
    SentRequest request{.type = kCds};
    request.held["a"] = "any";
    REQUIRE(other.on_request(request.delta_view()).ok());
    CHECK_FALSE(other.next_response(now));
    const auto response = other.next_response(now + Session::kExpandedBound);
    REQUIRE(response);
    CHECK(response->removed == Names{"a"});
    CHECK_FALSE(other.emptied());
  }

  TEST_CASE_FIXTURE(Fixture,
                    "removed clusters stay until the listener without them is acknowledged") {
    const auto listener = [](const std::string& to) {
      return resource(XdsType::kListener, "l", "to" + to, {{kCds, to}});
    };
    put(kCds, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kListener, {listener("b")});
    ask(kCds);
    settle(kCds);
    ask(XdsType::kListener);
    settle(XdsType::kListener);
    sets[index_of(XdsType::kListener)] = ResourceSet::make({listener("a")});
    put(kCds, {cluster("a", "1")});
    CHECK(settle(XdsType::kListener) == "l=toa");
    CHECK(settle(kCds) == "-b");
    CHECK_FALSE(next());
  }

  TEST_CASE_FIXTURE(Fixture, "a subscription is bounded") {
    Names names;
    for (std::size_t i = 0; i < ads::kMaxNames; ++i) names.push_back(std::to_string(i));
    REQUIRE(session.on_request(SentRequest{.type = kEds, .names = names}.delta_view()).ok());
    const auto more = session.on_request(SentRequest{.type = kEds, .names = {"more"}}.delta_view());
    REQUIRE_FALSE(more.ok());
    CHECK(more.error().code == ErrorCode::kInvalidArgument);
  }
}
