// A platform's ids keep their last good answers, and are asked for again in time, for any platform.
#include "endpoint/resolution_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::endpoint;
using namespace std::chrono_literals;

namespace {

using Ids = std::set<std::string>;
using Texts = std::vector<std::string>;

// Delays are the longest ones.
struct NoJitter final : Rng {
  std::uint64_t next() override { return 0; }
};

ResolutionAnswer address(const std::string& text, std::chrono::seconds again_after = 60s) {
  return {Outcome::kAnswered, {.instances = {{.address = text}}}, again_after, {}};
}
ResolutionAnswer fault(Outcome outcome, const std::string& text = "a fault") {
  return {outcome, {}, {}, {ErrorCode::kUnavailable, text}};
}

// A platform as a test writes it, which outlives the resolver's.
struct World {
  std::map<std::string, ResolutionAnswer> answers;  // default: silence
  std::vector<Ids> questions;
  std::optional<SteadyTime> pause{};
  std::optional<Error> problem{};
  Texts reports;
  bool ended = false;
};

class Platform final : public ResolutionPlatform {
 public:
  explicit Platform(World& world) : world_(world) {}

  bool knows(const std::string& id) const override { return id != "unknown"; }
  ResolutionAnswers ask(const Ids& ids) override {
    world_.questions.push_back(ids);
    ResolutionAnswers out;
    for (const std::string& id : ids) out[id] = world_.answers[id];
    return out;
  }
  void end() override { world_.ended = true; }
  void report(const std::string& id, const ResolutionAnswer& answer,
              Outcome former) const override {
    if ((answer.outcome == Outcome::kAnswered) != (former == Outcome::kAnswered))
      world_.reports.push_back(id + ": " + answer.fault.message);
  }
  std::optional<SteadyTime> paused_until() const override { return world_.pause; }
  std::optional<Error> problem() const override { return world_.problem; }

 private:
  World& world_;
};

struct TableFixture {
  TableFixture() { make(); }

  void make() {
    subscription.reset();
    resolver = make_resolution_table(options, std::make_unique<Platform>(world));
    subscription = resolver->subscribe([this](const Ids& ids) { changes.push_back(ids); });
  }
  void follow(const Ids& ids) {
    resolver->follow(ids);
    pass(0s);
  }
  // Lets time pass, a second at a time, with answers at once.
  void pass(std::chrono::seconds duration) {
    const SteadyTime end = clock.steady_now() + duration;
    while (true) {
      while (executor.run_until_idle() + blocking.run_until_idle() > 0) continue;
      if (clock.steady_now() >= end) return;
      executor.run_for(1s);
    }
  }
  std::string found(const std::string& id) const {
    const auto resolution = resolver->find(id);
    if (!resolution) return "unknown";
    return resolution->instances.empty() ? "none" : resolution->instances.front().address;
  }
  Texts problems() const {
    Texts out;
    for (const auto& each : resolver->list_problems()) out.push_back(each.id + ": " + each.cause);
    return out;
  }
  // Number of questions that asked for the id.
  auto asked(const std::string& id) const {
    return std::ranges::count_if(world.questions, [&](const Ids& ids) { return ids.contains(id); });
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::ManualExecutor blocking{clock};  // its tasks are the questions in flight
  NoJitter rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  ResolutionTableOptions options{.id = "test",
                                 .runtime = {executor, blocking, clock, rng, log, metrics},
                                 .ids_per_question = 2,
                                 .questions_at_once = 2,
                                 .backoff = {1s, 10s},
                                 .gone_after = 300s};
  World world;
  std::vector<Ids> changes;
  std::unique_ptr<ResourceResolver> resolver;
  Subscription subscription;
};

}  // namespace

TEST_SUITE("endpoint::ResolutionTable") {
  TEST_CASE_FIXTURE(TableFixture, "an id has its answer, and is asked again when the answer says") {
    world.answers["a"] = address("10.0.0.1", 30s);
    follow({"a", "unknown"});
    CHECK(resolver->id() == "test");
    CHECK(found("a") == "10.0.0.1");
    CHECK(found("unknown") == "unknown");
    CHECK(resolver->has_synced());
    CHECK(changes == std::vector<Ids>{{"a"}, {}});
    changes.clear();

    pass(29s);
    CHECK(asked("a") == 1);
    world.answers["a"] = address("10.0.0.2", 30s);
    pass(1s);
    CHECK(found("a") == "10.0.0.2");
    pass(30s);
    CHECK(asked("a") == 3);
    CHECK(changes == std::vector<Ids>{{"a"}});
    CHECK(asked("unknown") == 0);
  }

  TEST_CASE_FIXTURE(TableFixture, "the last good answer stays over faults") {
    for (const Outcome outcome : {Outcome::kNoData, Outcome::kRefused, Outcome::kSilent}) {
      world = {};
      world.answers["a"] = address("10.0.0.1", 5s);
      make();
      follow({"a"});
      changes.clear();
      world.answers["a"] = fault(outcome);
      pass(3600s);
      CHECK(found("a") == "10.0.0.1");
      CHECK(resolver->healthy() == (outcome != Outcome::kSilent));
      CHECK(resolver->has_synced());
      CHECK(problems() == Texts{"a: a fault"});
      CHECK(changes.front() == Ids{"a"});
      world.answers["a"] = address("10.0.0.1");
      pass(10s);
      CHECK(problems().empty());
      CHECK(resolver->healthy());
      CHECK(world.reports == Texts{"a: a fault", "a: "});
    }
  }

  TEST_CASE_FIXTURE(TableFixture, "another fault of an id is announced, and the same one is not") {
    world.answers["a"] = fault(Outcome::kRefused, "one");
    follow({"a"});
    pass(60s);
    changes.clear();
    pass(60s);
    CHECK(changes.empty());
    world.answers["a"] = fault(Outcome::kRefused, "two");
    pass(10s);
    CHECK(changes == std::vector<Ids>{{"a"}});
    CHECK(problems() == Texts{"a: two"});
  }

  TEST_CASE_FIXTURE(TableFixture, "three refusals settle an id") {
    world.answers["a"] = fault(Outcome::kRefused);
    follow({"a"});
    pass(2s);
    CHECK(asked("a") == 2);
    CHECK_FALSE(resolver->has_synced());
    changes.clear();
    pass(1s);
    CHECK(asked("a") == 3);
    CHECK(resolver->has_synced());
    CHECK(changes == std::vector<Ids>{{}});
    CHECK(found("a") == "unknown");
  }

  TEST_CASE_FIXTURE(TableFixture, "silence is no refusal") {
    follow({"a"});
    pass(3600s);
    CHECK_FALSE(resolver->has_synced());
    world.answers["a"] = fault(Outcome::kRefused);
    pass(20s);
    CHECK_FALSE(resolver->has_synced());  // two refusals
    world.answers["a"] = fault(Outcome::kSilent);
    pass(10s);
    world.answers["a"] = fault(Outcome::kRefused);
    pass(10s);
    CHECK(resolver->has_synced());
  }

  TEST_CASE_FIXTURE(TableFixture, "a good answer ends the back-off") {
    world.answers["a"] = fault(Outcome::kRefused);
    follow({"a"});
    pass(60s);
    world.answers["a"] = address("10.0.0.1", 1s);
    pass(10s);
    const auto before = asked("a");
    world.answers["a"] = fault(Outcome::kRefused);
    pass(4s);
    CHECK(asked("a") - before == 3);  // the answer's own time, one second, two seconds
  }

  TEST_CASE_FIXTURE(TableFixture,
                    "silence beside answers counts as a refusal if the platform says") {
    options.silence_counts = true;
    make();
    follow({"a"});
    pass(3600s);
    CHECK_FALSE(resolver->has_synced());  // nobody has answered
    world.answers["b"] = fault(Outcome::kNoData);
    follow({"a", "b"});
    CHECK_FALSE(resolver->has_synced());
    pass(10s);
    CHECK(resolver->has_synced());
    CHECK(found("a") == "unknown");
  }

  TEST_CASE_FIXTURE(TableFixture, "the answer that there is nothing settles an id at once") {
    for (const Outcome outcome : {Outcome::kNoData, Outcome::kNotFound}) {
      make();
      world.answers["a"] = fault(outcome);
      follow({"a"});
      CHECK(resolver->has_synced());
      CHECK(found("a") == "unknown");
      CHECK(problems() == Texts{"a: a fault"});
    }
  }

  TEST_CASE_FIXTURE(TableFixture, "failed ids are asked again with a back-off") {
    const SteadyTime start = clock.steady_now();
    std::vector<std::chrono::nanoseconds> times;
    follow({"a"});
    std::size_t known = 0;
    while (known < 7) {
      if (std::exchange(known, world.questions.size()) != world.questions.size())
        times.push_back(clock.steady_now() - start);
      pass(1s);
    }
    CHECK(times == std::vector<std::chrono::nanoseconds>{0s, 1s, 3s, 7s, 15s, 25s, 35s});
  }

  TEST_CASE_FIXTURE(TableFixture, "an id that is not found loses its instances after a time") {
    world.answers["a"] = {
        Outcome::kAnswered, {.instances = {{.address = "10.0.0.1"}}, .scales = true}, 5s, {}};
    follow({"a"});
    world.answers["a"] = fault(Outcome::kNotFound);
    pass(295s);
    CHECK(found("a") == "10.0.0.1");
    // A break: the time begins again.
    world.answers["a"] = fault(Outcome::kRefused);
    pass(10s);
    world.answers["a"] = fault(Outcome::kNotFound);
    pass(295s);
    CHECK(found("a") == "10.0.0.1");
    changes.clear();
    pass(25s);
    CHECK(found("a") == "none");
    CHECK(resolver->find("a")->scales);
    CHECK(changes == std::vector<Ids>{{"a"}});
    world.answers["a"] = address("10.0.0.2");
    pass(10s);
    CHECK(found("a") == "10.0.0.2");
  }

  TEST_CASE_FIXTURE(TableFixture, "several questions are in flight, each for several ids") {
    const Ids ids{"a", "b", "c", "d", "e", "f", "g"};
    for (const std::string& id : ids) world.answers[id] = address("10.0.0.1");
    resolver->follow(ids);
    executor.run_until_idle();
    CHECK(blocking.queued() == 2);
    resolver->follow(ids);  // nothing is asked twice
    executor.run_until_idle();
    CHECK(blocking.queued() == 2);

    CHECK(blocking.run_one());
    executor.run_until_idle();
    CHECK(blocking.queued() == 2);  // the next one follows when one ends
    CHECK(found("b") == "10.0.0.1");
    CHECK(found("c") == "unknown");
    CHECK_FALSE(resolver->has_synced());
    pass(0s);
    CHECK(world.questions == std::vector<Ids>{{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g"}});
    CHECK(resolver->has_synced());
  }

  TEST_CASE_FIXTURE(TableFixture, "the ids that are due for longest are asked for first") {
    options.questions_at_once = 1;
    make();
    world.answers["z"] = address("10.0.0.1");
    resolver->follow({"a", "b", "c", "d", "z"});
    executor.run_until_idle();
    while (found("z") == "unknown" && world.questions.size() < 10) {
      clock.advance(10s);  // so that silent ids are due before the question ends
      blocking.run_one();
      executor.run_until_idle();
    }
    CHECK(world.questions == std::vector<Ids>{{"a", "b"}, {"c", "d"}, {"a", "z"}});
  }

  TEST_CASE_FIXTURE(TableFixture, "nothing is asked in a pause, and its faults do not count") {
    world.answers["a"] = fault(Outcome::kSilent, "slow down");
    world.pause = clock.steady_now();
    resolver->follow({"a"});
    executor.run_until_idle();
    world.pause = clock.steady_now() + 600s;
    pass(0s);
    CHECK(asked("a") == 1);
    CHECK(resolver->healthy());
    CHECK(problems() == Texts{"a: slow down"});
    follow({"a", "b"});
    pass(599s);
    CHECK(world.questions.size() == 1);
    pass(1s);
    CHECK(world.questions == std::vector<Ids>{{"a"}, {"a", "b"}});
    CHECK_FALSE(resolver->healthy());
    pass(1s);  // the first fault that counts
    CHECK(asked("a") == 3);
  }

  TEST_CASE_FIXTURE(TableFixture, "a problem of the platform stands for those of its ids") {
    world.problem = Error{ErrorCode::kPermissionDenied, "log in"};
    follow({"a", "b"});
    CHECK(problems() == Texts{": log in"});
    CHECK_FALSE(resolver->healthy());
    world.answers["a"] = address("10.0.0.1");
    pass(2s);
    CHECK(found("a") == "10.0.0.1");
    CHECK_FALSE(resolver->healthy());
    changes.clear();
    world.problem.reset();
    pass(60s);
    CHECK(resolver->list_problems().size() == 1);
    CHECK(problems() == Texts{"b: "});
    CHECK(std::ranges::count(changes, Ids{}) > 0);
  }

  TEST_CASE_FIXTURE(TableFixture, "problems are ordered by id, and may tell the addresses kept") {
    options.problems_count_kept = true;
    make();
    world.answers["b"] = address("10.0.0.1", 1s);
    world.answers["a"] = fault(Outcome::kRefused, "no");
    follow({"b", "a"});
    world.answers["b"] = fault(Outcome::kRefused, "no");
    pass(1s);
    CHECK(problems() == Texts{"a: no", "b: no. Its last 1 addresses are kept"});
  }

  TEST_CASE_FIXTURE(TableFixture, "an id that is not followed any more is forgotten") {
    world.answers["a"] = address("10.0.0.1", 5s);
    resolver->follow({"a", "b"});
    executor.run_until_idle();
    resolver->follow({"b"});  // while the question is in flight
    pass(60s);
    CHECK(found("a") == "unknown");
    CHECK(asked("a") == 1);
    CHECK_FALSE(resolver->healthy());
    follow({});
    CHECK(resolver->healthy());
    CHECK(resolver->has_synced());
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(TableFixture, "a resolver ends while questions are in flight") {
    resolver->follow({"a", "b", "c"});
    executor.run_until_idle();
    REQUIRE(blocking.queued() == 2);
    subscription.reset();
    resolver.reset();
    CHECK(world.ended);
    pass(60s);
    CHECK(world.questions.empty());
    CHECK(changes.empty());
  }
}
