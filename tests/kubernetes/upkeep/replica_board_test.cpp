// Replicas read each other's state through Leases and notice each other's end.
#include "kubernetes/upkeep/replica_board.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "kubernetes/upkeep/upkeep_fixture.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;
using namespace std::chrono_literals;

namespace {

using Said = std::map<std::string, std::string>;
constexpr const char* kNs = "osm-system";

struct Fixture : UpkeepFixture {
  std::unique_ptr<LeaseBoard> board(const std::string& replica, const std::string& mesh = "osm",
                                    const std::set<std::string>& topics = {}) {
    return std::make_unique<LeaseBoard>(ReplicaBoardOptions{.cluster = cluster,
                                                            .runtime = runtime,
                                                            .replica = replica,
                                                            .mesh_name = mesh,
                                                            .osm_namespace = kNs,
                                                            .topics = topics});
  }
  // "unavailable" in place of an answer.
  static Said read(const LeaseBoard& board, const std::string& topic = "status") {
    auto said = board.read(topic);
    if (said.ok()) return *said;
    CHECK(said.error().code == ErrorCode::kUnavailable);
    return {{"unavailable", ""}};
  }
  std::size_t renewals_of(const std::string& name) const { return writes_of("replica-" + name); }
  std::size_t texts_of(const std::string& name) const { return writes_of("texts-" + name); }
  std::size_t writes_of(const std::string& lease) const {
    std::size_t count = 0;
    for (const std::string& write : api.writes())
      count += write == "patch leases osm-system/osm-" + lease;
    return count;
  }
  void fail(const std::string& verb) {
    api.set_fault([verb](const std::string& call) {
      return call.starts_with(verb) ? Status(Error{ErrorCode::kUnavailable, "away"}) : Status();
    });
  }
  void cut_off() { fail(""); }
};

const Said kNobodyKnows{{"unavailable", ""}};

}  // namespace

TEST_SUITE("kubernetes::LeaseBoard") {
  TEST_CASE_FIXTURE(Fixture, "each reads what the others said last, and itself") {
    auto a = board("a"), b = board("b");
    REQUIRE(a->publish("status", "one").ok());
    REQUIRE(a->publish("roots", "other").ok());
    executor.run_for(5s);
    CHECK(read(*b) == Said{{"a", "one"}, {"b", ""}});
    REQUIRE(a->publish("status", "two").ok());
    REQUIRE(b->publish("status", "here").ok());
    CHECK(read(*a) == Said{{"a", "two"}, {"b", ""}});
    executor.run_for(5s);
    CHECK(read(*a) == Said{{"a", "two"}, {"b", "here"}});
    CHECK(read(*b) == Said{{"a", "two"}, {"b", "here"}});
    CHECK(read(*b, "roots") == Said{{"a", "other"}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a replica is listed only in the topics that it takes part in") {
    auto controller = board("controller"), injector = board("injector", "osm", {"leaves", "roots"});
    REQUIRE(controller->publish("status", "mine").ok());
    REQUIRE(injector->publish("roots", "seen").ok());
    executor.run_for(5s);
    const Said all{{"controller", ""}, {"injector", "seen"}};
    CHECK(read(*controller, "roots") == all);
    CHECK(read(*injector, "roots") == all);
    CHECK(read(*injector, "leaves") == Said{{"controller", ""}, {"injector", ""}});
    CHECK(read(*controller) == Said{{"controller", "mine"}});
    CHECK(read(*injector) == Said{{"controller", "mine"}});
    const Status refused = injector->publish("status", "too");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(refused.error().message.find("'status'") != std::string::npos);
    CHECK(metrics.value("osm_replicas") == 1);  // of the controller
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that takes part in some topics only never leads") {
    auto controller = board("controller"), injector = board("injector", "osm", {"roots"});
    const Subscription standing = injector->stand([] { FAIL("it leads"); });
    executor.run_for(1min);
    CHECK_FALSE(injector->leads());
    CHECK(api.count(kLeases) == 4);  // no Lease of a leader
    const Subscription stands = controller->stand({});
    executor.run_for(5s);
    CHECK(controller->leads());
    CHECK_FALSE(injector->leads());
  }

  TEST_CASE_FIXTURE(Fixture, "before the first answer of the API server nobody knows who lives") {
    auto a = board("a");
    CHECK(read(*a) == kNobodyKnows);
    executor.run_until_idle();
    CHECK(read(*a) == Said{{"a", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that leaves is gone at the next look") {
    auto a = board("a"), b = board("b");
    executor.run_for(5s);
    CHECK(read(*a).size() == 2);
    b.reset();
    executor.run_for(3s);
    CHECK(read(*a) == Said{{"a", ""}});
    CHECK(api.count(kLeases) == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that dies is gone when its Lease has run out, not before") {
    auto a = board("a"), b = board("b");
    REQUIRE(b->publish("status", "last words").ok());
    executor.run_for(6s);
    b->stop();
    executor.run_for(10s);
    CHECK(read(*a) == Said{{"a", ""}, {"b", "last words"}});
    executor.run_for(10s);
    CHECK(read(*a) == Said{{"a", ""}});
    CHECK(api.count(kLeases) == 4);  // it might only sleep
    executor.run_for(6min);
    CHECK(api.count(kLeases) == 2);
    CHECK_FALSE(api.at(kLeases, kNs, "osm-replica-a").empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that slept for long is back when it wakes") {
    auto a = board("a"), b = board("b");
    REQUIRE(b->publish("status", "here").ok());
    executor.run_for(5s);
    api.set_fault([](const std::string& call) {
      return call.ends_with("osm-replica-b") ? Status(Error{ErrorCode::kUnavailable, "away"})
                                             : Status();
    });
    executor.run_for(10min);
    CHECK(api.at(kLeases, kNs, "osm-replica-b").empty() == false);  // nobody could delete it
    api.set_fault({});
    executor.run_for(1min);
    CHECK(read(*a) == Said{{"a", ""}, {"b", "here"}});
    CHECK(read(*b) == Said{{"a", ""}, {"b", "here"}});
  }

  TEST_CASE_FIXTURE(Fixture, "a calendar that jumps, here or there, lets nobody die or live") {
    auto a = board("a"), b = board("b");
    executor.run_for(5s);
    clock.set_wall(clock.wall_now() + 24h);
    executor.run_for(5s);
    CHECK(read(*a).size() == 2);
    clock.set_wall(clock.wall_now() - 48h);
    executor.run_for(5s);
    CHECK(read(*a).size() == 2);
    b->stop();
    executor.run_for(20s);
    CHECK(read(*a).size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a Lease from before counts until it has stood still for its time") {
    auto dead = board("dead");
    executor.run_until_idle();
    dead->stop();
    auto a = board("a");
    executor.run_until_idle();
    CHECK(read(*a) == Said{{"a", ""}, {"dead", ""}});
    executor.run_for(20s);
    CHECK(read(*a) == Said{{"a", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that cannot list, or cannot renew, does not know") {
    auto a = board("a");
    for (const std::set<std::string>& verbs :
         {std::set<std::string>{"list", "watch"}, std::set<std::string>{"patch"}}) {
      CAPTURE(*verbs.begin());
      executor.run_for(5s);
      CHECK(read(*a) == Said{{"a", ""}});
      api.set_fault([verbs](const std::string& call) {
        return verbs.contains(call.substr(0, call.find(' ')))
                   ? Status(Error{ErrorCode::kUnavailable, "away"})
                   : Status();
      });
      api.end_watches();
      executor.run_for(8s);
      CHECK(read(*a) == Said{{"a", ""}});  // not at the first hitch
      executor.run_for(15s);
      CHECK(read(*a) == kNobodyKnows);
      api.set_fault({});
    }
    CHECK(log.lines_with("cannot tell the others").size() == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "the newest proof of the API server ages while either way is cut") {
    auto a = board("a");
    const SteadyTime begun = clock.steady_now();
    CHECK(a->confirmed_at() == begun);
    for (const std::string verb : {"", "watch", "patch"}) {
      CAPTURE(verb);
      executor.run_for(20s);
      CHECK(clock.steady_now() - *a->confirmed_at() <= 8s);
      api.set_fault([verb](const std::string& call) {
        const bool lists = verb == "watch" && call.starts_with("list");
        return call.starts_with(verb) || lists ? Status(Error{ErrorCode::kUnavailable, "away"})
                                               : Status();
      });
      api.end_watches();
      executor.run_for(1min);
      CHECK(clock.steady_now() - *a->confirmed_at() >= 1min);
      api.set_fault({});
    }
  }

  TEST_CASE_FIXTURE(Fixture, "texts published during an outage are written after it") {
    auto a = board("a"), b = board("b");
    executor.run_for(5s);
    cut_off();
    REQUIRE(a->publish("status", "meanwhile").ok());
    executor.run_for(30s);
    CHECK(read(*b) == kNobodyKnows);
    api.set_fault({});
    executor.run_for(6s);
    CHECK(read(*b) == Said{{"a", "meanwhile"}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a Lease that somebody changed or deleted is put back as it was") {
    auto a = board("a"), b = board("b");
    REQUIRE(a->publish("status", "true").ok());
    executor.run_for(5s);
    api.edit(kLeases, kNs, "osm-texts-a", [](json::object& lease) {
      lease["metadata"]
          .as_object()["annotations"]
          .as_object()["replica.openservicemesh.io/status"] = "false";
    });
    executor.run_for(8s);
    CHECK(read(*b) == Said{{"a", "true"}, {"b", ""}});
    for (const char* lease : {"osm-replica-a", "osm-texts-a"}) {
      CAPTURE(lease);
      REQUIRE(api.remove(kLeases, kNs, lease, {}).ok());
      executor.run_for(8s);
      CHECK(read(*b) == Said{{"a", "true"}, {"b", ""}});
    }
  }

  TEST_CASE_FIXTURE(Fixture, "frequent texts are written once a second") {
    auto a = board("a"), b = board("b");
    executor.run_for(2s);
    api.forget_writes();
    for (int i = 0; i < 1000; ++i) {
      REQUIRE(a->publish("status", std::to_string(i)).ok());
      executor.run_for(10ms);
    }
    CHECK(texts_of("a") >= 9);
    CHECK(texts_of("a") <= 11);
    CHECK(renewals_of("a") <= 3);
    executor.run_for(4s);
    CHECK(read(*b).at("a") == "999");
  }

  TEST_CASE_FIXTURE(Fixture, "an unchanged text is not written again, and no renewal has it") {
    auto a = board("a");
    REQUIRE(a->publish("status", "words").ok());
    executor.run_for(2s);
    api.forget_writes();
    for (int i = 0; i < 60; ++i) {
      REQUIRE(a->publish("status", "words").ok());
      executor.run_for(1s);
    }
    CHECK(renewals_of("a") >= 8);
    CHECK(renewals_of("a") <= 12);
    CHECK(texts_of("a") == 0);
    const std::string renewed = json::serialize(api.at(kLeases, kNs, "osm-replica-a"));
    CHECK(renewed.find("words") == std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a replica that cannot write its texts is not taken for a living one") {
    auto a = board("a"), b = board("b");
    executor.run_for(5s);
    api.set_fault([](const std::string& call) {
      return call == "patch leases osm-system/osm-texts-a"
                 ? Status(Error{ErrorCode::kUnavailable, "away"})
                 : Status();
    });
    REQUIRE(a->publish("status", "new").ok());
    executor.run_for(30s);
    CHECK(read(*b) == Said{{"b", ""}});
    CHECK(read(*a) == kNobodyKnows);
    api.set_fault({});
    executor.run_for(6s);
    CHECK(read(*b) == Said{{"a", "new"}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "texts of an earlier process of the same name are not read") {
    auto b = board("b");
    auto killed = board("a");
    REQUIRE(killed->publish("status", "before").ok());
    executor.run_for(5s);
    killed->stop();
    auto a = board("a");
    executor.run_for(3s);
    CHECK(read(*b) == Said{{"a", ""}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a text beyond the limits is refused, and the last one stays") {
    auto a = board("a");
    REQUIRE(a->publish("status", std::string(100'000, 'x')).ok());
    REQUIRE(a->publish("two", std::string(100'000, 'x')).ok());
    const auto refused = [&](const std::string& topic, std::string text) {
      const Status status = a->publish(topic, std::move(text));
      CHECK(status.error().code == ErrorCode::kInvalidArgument);
      return status.error().text();
    };
    CHECK(refused("status", std::string(100'001, 'x')).find("100001 bytes") != std::string::npos);
    CHECK(refused("three", std::string(50'001, 'x')).find("250001 with") != std::string::npos);
    CHECK(a->publish("three", std::string(50'000, 'x')).ok());
    for (const char* topic : {"", "A", "a/b", "-a", "a-"}) refused(topic, "");
    refused(std::string(64, 'a'), "");
    CHECK(refused("status", "\xff").find("UTF-8") != std::string::npos);
    executor.run_for(2s);
    CHECK(read(*a).at("a").size() == 100'000);
  }

  TEST_CASE_FIXTURE(Fixture, "subscribers are notified of texts and replicas, not of renewals") {
    auto a = board("a");
    int heard = 0;
    executor.run_for(10s);
    const Subscription listening = a->subscribe([&] { ++heard; });
    executor.run_for(1min);
    CHECK(heard == 0);
    auto b = board("b");
    executor.run_for(3s);
    CHECK(heard == 1);
    executor.run_for(1min);
    CHECK(heard == 1);
    REQUIRE(b->publish("status", "hello").ok());
    executor.run_for(5s);
    CHECK(heard == 2);
    b->stop();
    executor.run_for(20s);
    CHECK(heard == 3);
    executor.run_for(10min);  // its Lease is collected
    CHECK(heard == 4);
  }

  TEST_CASE_FIXTURE(Fixture, "another mesh in the namespace, and other Leases, are nobody here") {
    auto a = board("a");
    auto theirs = board("b", "other-mesh");
    put(kLeases, {{"metadata", {{"name", "osm-controller-osm"}, {"namespace", kNs}}},
                  {"spec", {{"holderIdentity", "c"}}}});
    executor.run_for(1h);
    CHECK(read(*a) == Said{{"a", ""}});
    CHECK(api.count(kLeases) == 5);
  }

  TEST_CASE_FIXTURE(Fixture, "a name that no object can have makes a Lease, and its own") {
    auto a = board("Host_1"), b = board("host-1"), c = board(std::string(300, 'x'));
    executor.run_for(5s);
    CHECK(read(*a) == Said{{"Host_1", ""}, {"host-1", ""}, {std::string(300, 'x'), ""}});
    CHECK_FALSE(api.at(kLeases, kNs, "osm-replica-host-1").empty());
  }
}
