// Replicas read each other in etcd, and the oldest leads, never two at once.
#include <doctest/doctest.h>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "osm/etcd/backend.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using etcd_test::contains;
using etcd_test::FakeEtcd;
using Said = std::map<std::string, std::string>;
using std::chrono::seconds;

const Said kNobodyKnows{{"unavailable", ""}};

struct SmallestRng final : Rng {
  std::uint64_t next() override { return 0; }
};

// One process: it stands still while its executor is not run.
struct Process {
  Process(testing::ManualClock& time, std::string replica, std::vector<std::string> endpoints)
      : clock(time), executor(time), name(std::move(replica)), client(std::move(endpoints)) {}

  Result<std::unique_ptr<ReplicaBoard>> make() {
    const Runtime runtime{executor, executor, clock, rng, log, metrics};
    const auto backend = etcd::make_backend(
        {.etcd = client.options, .objects = runtime, .board = runtime, .replica = name});
    if (!backend.ok()) return backend.error();
    return backend->join();
  }
  void join(bool stands = true) {
    auto made = make();
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    replicas = *std::move(made);
    if (stands) standing = replicas->stand([this] { ++begun; });
  }
  void leave() {
    standing.reset();
    replicas.reset();
  }
  Said read(const std::string& topic = "roots") const {
    const auto said = replicas->read(topic);
    if (said.ok()) return *said;
    CHECK(said.error().code == ErrorCode::kUnavailable);
    return kNobodyKnows;
  }

  testing::ManualClock& clock;
  testing::ManualExecutor executor;
  const std::string name;
  SmallestRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  etcd_test::ClientOptions client;
  std::unique_ptr<ReplicaBoard> replicas;
  Subscription standing;
  int begun = 0;  // calls of on_begin
};

struct Fixture {
  Fixture() {
    keys->now = [this] { return clock.steady_now(); };
  }

  // Lets time pass for the running processes and for etcd.
  void pass(seconds time, const std::vector<Process*>& running) {
    for (seconds i{0}; i < time; i += seconds(1)) {
      clock.advance(seconds(1));
      for (Process* process : running) process->executor.run_until_idle();
      // At no time do two replicas lead.
      CHECK((a.replicas && a.replicas->leads()) + (b.replicas && b.replicas->leads()) <= 1);
    }
  }
  void pass(seconds time) { pass(time, {&a, &b}); }
  void both_join() {
    a.join();
    b.join();
    pass(seconds(2));
  }
  template <class Use>
  auto with_keys(Use use) const {
    const std::lock_guard lock(keys->mutex);
    return use(*keys);
  }
  int version_of(const std::string& key) const {
    return with_keys([&](auto& etcd) { return etcd.values[key].version; });
  }
  void cut_off(FakeEtcd& etcd) {
    etcd.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: request timed out"));
  }

  testing::ManualClock clock;
  const std::shared_ptr<etcd_test::Keys> keys = std::make_shared<etcd_test::Keys>();
  FakeEtcd at_a{keys}, at_b{keys};  // two members, so that one process can be cut off
  Process a{clock, "a", {at_a.url()}};
  Process b{clock, "b", {at_b.url()}};
};

TEST_SUITE("etcd::Backend::join") {
  TEST_CASE_FIXTURE(Fixture, "a replica that has joined is seen at the next look of the others") {
    a.join();
    CHECK(a.read() == Said{{"a", ""}});
    b.join();
    CHECK(b.read() == Said{{"a", ""}, {"b", ""}});
    pass(seconds(2));
    CHECK(a.read() == Said{{"a", ""}, {"b", ""}});
    CHECK(a.metrics.value("osm_replicas") == 2);
  }

  TEST_CASE_FIXTURE(Fixture, "the oldest replica leads, and the next one when it has left") {
    both_join();
    CHECK(a.replicas->leads());
    CHECK_FALSE(b.replicas->leads());
    CHECK(a.metrics.value("osm_lease_held") == 1);
    CHECK(a.log.count("takes the steps") == 1);
    CHECK(a.begun == 1);
    CHECK(b.begun == 0);
    a.leave();
    CHECK(with_keys([](auto& etcd) { return etcd.leases.size(); }) == 1);
    pass(seconds(1), {&b});
    CHECK(b.replicas->leads());
    CHECK(b.read() == Said{{"b", ""}});
    a.join();
    pass(seconds(20));
    CHECK(b.replicas->leads());
    CHECK_FALSE(a.replicas->leads());
    CHECK(b.begun == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that has no handle keeps nobody from leading") {
    a.join(false);
    b.join();
    pass(seconds(2));
    CHECK(b.replicas->leads());
    a.standing = a.replicas->stand({});  // the older one, which stands later
    pass(seconds(20));
    CHECK(b.replicas->leads());
    b.standing.reset();
    CHECK_FALSE(b.replicas->leads());
    pass(seconds(2));
    CHECK(a.replicas->leads());
    CHECK(b.read() == Said{{"a", ""}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a replica does not lead before its resignation is confirmed") {
    both_join();
    cut_off(at_a);
    a.standing.reset();
    pass(seconds(1));
    a.standing = a.replicas->stand({});
    pass(seconds(2));
    CHECK_FALSE(a.replicas->leads());
    CHECK_FALSE(b.replicas->leads());  // the key of the other is there
    at_a.set_fault(std::nullopt);
    pass(seconds(3));
    CHECK(b.replicas->leads());
    CHECK_FALSE(a.replicas->leads());
  }

  TEST_CASE_FIXTURE(Fixture, "a leader that is cut off stops before another one begins") {
    both_join();
    cut_off(at_a);
    pass(seconds(4));
    CHECK(a.replicas->leads());  // not at the first hitch
    pass(seconds(7));
    CHECK_FALSE(a.replicas->leads());
    CHECK_FALSE(b.replicas->leads());  // the lease of the other lives
    CHECK(b.read() == Said{{"a", ""}, {"b", ""}});
    pass(seconds(7));
    CHECK(b.replicas->leads());
    CHECK(b.read() == Said{{"b", ""}});
    at_a.set_fault(std::nullopt);
    pass(seconds(3));
    CHECK(b.replicas->leads());
    CHECK(a.read() == Said{{"a", ""}, {"b", ""}});
    CHECK(b.read() == a.read());
  }

  TEST_CASE_FIXTURE(Fixture, "a leader that stood still for long does not lead when it wakes") {
    both_join();
    pass(seconds(30), {&b});
    CHECK(b.replicas->leads());
    CHECK_FALSE(a.replicas->leads());
    CHECK(a.read() == kNobodyKnows);
    pass(seconds(2));
    CHECK(b.replicas->leads());
    CHECK(a.read() == Said{{"a", ""}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a replica that does not reach etcd does not know who lives") {
    both_join();
    REQUIRE(b.replicas->publish("roots", "before").ok());
    pass(seconds(3));
    cut_off(at_a);
    pass(seconds(3));
    CHECK(a.read() == Said{{"a", ""}, {"b", "before"}});  // not at the first hitch
    pass(seconds(10));
    CHECK(a.read() == kNobodyKnows);
    const Error error = a.replicas->read("roots").error();
    CHECK(contains(error.message, "replicas of key /osm/ca of etcd (" + at_a.url() + ")"));
    CHECK(a.log.count("no root rotation goes on") == 1);
    REQUIRE(a.replicas->publish("roots", "meanwhile").ok());
    pass(seconds(20));
    at_a.set_fault(std::nullopt);
    pass(seconds(3));
    CHECK(a.log.count("tells again") == 1);
    CHECK(b.read() == Said{{"a", "meanwhile"}, {"b", "before"}});
    CHECK(a.read() == b.read());
  }

  TEST_CASE_FIXTURE(Fixture, "a key that somebody deleted is put back with the last texts") {
    both_join();
    REQUIRE(a.replicas->publish("roots", "one").ok());
    pass(seconds(2));
    with_keys([](auto& etcd) {
      etcd.values.erase("/osm/ca/replicas/a");
      etcd.values.erase("/osm/ca/replicas-standing/a");
    });
    pass(seconds(3));
    CHECK(b.read() == Said{{"a", "one"}, {"b", ""}});
    CHECK(b.replicas->leads());  // the other key is older now
    with_keys([](auto& etcd) {   // another etcd in its place
      etcd.leases.clear();
      etcd.values.clear();
    });
    pass(seconds(8));
    CHECK(b.read() == Said{{"a", "one"}, {"b", ""}});
    CHECK(a.read() == b.read());
  }

  TEST_CASE_FIXTURE(Fixture, "frequent texts are written once a second, and no news not at all") {
    both_join();
    const int before = version_of("/osm/ca/replicas/a");
    for (int i = 0; i < 200; ++i) {
      REQUIRE(a.replicas->publish("roots", std::to_string(i)).ok());
      if (i % 20 == 19) pass(seconds(1));
    }
    CHECK(version_of("/osm/ca/replicas/a") == before + 10);
    pass(seconds(1));
    CHECK(b.read().at("a") == "199");
    const auto revision = [](auto& etcd) { return etcd.revision; };
    const int at_rest = with_keys(revision);
    pass(seconds(60));
    CHECK(with_keys(revision) == at_rest);
  }

  TEST_CASE_FIXTURE(Fixture, "subscribers are notified of replicas that come and go") {
    a.join();
    pass(seconds(2), {&a});
    int heard = 0;
    const Subscription listening = a.replicas->subscribe([&] { ++heard; });
    pass(seconds(30), {&a});
    CHECK(heard == 0);
    b.join();
    pass(seconds(1), {&a});
    CHECK(heard == 1);
    pass(seconds(20), {&a});  // the other one stands still
    CHECK(heard == 2);
    CHECK(a.read() == Said{{"a", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "texts that no replica wrote read as empty") {
    both_join();
    for (const char* text : {"", "no JSON", "[]", R"({"roots":7})"}) {
      with_keys([&](auto& etcd) {
        const std::string key = "/osm/ca/replicas/b";
        etcd.put(key, base64(text), etcd.values[key].lease);
      });
      pass(seconds(1));
      CHECK(a.read() == Said{{"a", ""}, {"b", ""}});
    }
  }

  TEST_CASE_FIXTURE(Fixture, "replicas of another key are another mesh's") {
    b.client.options.key = "/osm/ca/other";
    a.join();
    b.join();
    CHECK(a.read() == Said{{"a", ""}});
    CHECK(b.read() == Said{{"b", ""}});
    for (Process* process : {&a, &b}) {
      process->executor.run_until_idle();
      CHECK(process->replicas->leads());
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a user logs in once, and again when etcd does not know the token") {
    for (FakeEtcd* etcd : {&at_a, &at_b}) etcd->require("osm", "secret", "/osm/ca");
    for (Process* process : {&a, &b}) {
      process->client.options.user = "osm";
      process->client.options.password_file = process->client.file("password", "secret\n");
    }
    both_join();
    CHECK(at_a.logins() == 1);
    pass(seconds(30));
    CHECK(at_a.logins() == 1);
    at_a.forget_tokens();
    pass(seconds(3));
    CHECK(at_a.logins() == 2);
    CHECK(a.log.count("no root rotation goes on") == 0);
    CHECK(a.read() == Said{{"a", ""}, {"b", ""}});
  }

  TEST_CASE_FIXTURE(Fixture, "a start that cannot join fails with the remedy") {
    cut_off(at_a);
    const auto away = a.make();
    REQUIRE_FALSE(away.ok());
    CHECK(away.error().code == ErrorCode::kUnavailable);
    CHECK(contains(away.error().message, "see that etcd runs there"));
    at_a.set_fault(FakeEtcd::refusal(403, 7, "etcdserver: permission denied"));
    const auto refused = a.make();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(contains(refused.error().message, "key /osm/ca and the keys below it"));
    Process nameless{clock, "", {at_a.url()}};
    CHECK(nameless.make().error().code == ErrorCode::kInvalidArgument);
  }
}

}  // namespace
