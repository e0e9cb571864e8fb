#include "osm/testing/replica_board_conformance.hpp"

#include <list>
#include <map>
#include <utility>

#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "testing/conformance_suite.hpp"

namespace osm::inline v1::testing {
namespace {

using std::chrono::seconds;
using Said = std::map<std::string, std::string>;

// One process. It stands still while its executor is not run.
struct Replica {
  explicit Replica(ManualClock& clock)
      : executor(clock), runtime{executor, executor, clock, rng, log, metrics} {}

  Status publish(const std::string& topic, const std::string& text) const {
    return board->publish(topic, text);
  }
  Result<Said> read(const std::string& topic) const { return board->read(topic); }

  ManualExecutor executor;
  RandomRng rng{1};
  CapturingLog log;
  CapturingMetrics metrics;
  const Runtime runtime;
  bool runs = true;
  std::unique_ptr<ReplicaBoard> board;  // null: it has left
};

class BoardBench {
 public:
  BoardBench(const ReplicaBoardPlatformFactory& factory,
             const ReplicaBoardConformanceOptions& options, OnStep on_step)
      : options_(options), on_step_(std::move(on_step)), platform_(factory()) {}

  ReplicaBoardPlatform& platform() { return *platform_; }
  void step(std::string what) { on_step_(std::move(what)); }

  // Lets a replica join. The others hear of it.
  Replica& join(const std::string& name) {
    step("joining as " + name);
    Replica& replica = replicas_.emplace_back(clock_);
    replica.board = platform_->join(name, replica.runtime);
    settle();
    return replica;
  }
  void settle() { pass(options_.settle); }
  void expire() { pass(options_.expiry); }
  // True if two replicas led at once.
  bool two_led() const { return two_led_; }

 private:
  void pass(seconds time) {
    for (seconds i{0}; i < time; i += seconds(1)) {
      clock_.advance(seconds(1));
      for (Replica& replica : replicas_) {
        if (replica.runs) replica.executor.run_until_idle();
        int leaders = 0;
        for (const Replica& each : replicas_) leaders += each.board && each.board->leads() ? 1 : 0;
        two_led_ = two_led_ || leaders > 1;
      }
    }
  }

  const ReplicaBoardConformanceOptions options_;
  const OnStep on_step_;
  ManualClock clock_;
  const std::unique_ptr<ReplicaBoardPlatform> platform_;
  std::list<Replica> replicas_;
  bool two_led_ = false;
};

const std::string kText = "one \"\xc3\xa9\"";
constexpr const char* kTopic = "contract";

std::string seen(const Result<Said>& said) {
  if (!said.ok()) return said.error().text();
  std::string text;
  for (const auto& [replica, what] : *said)
    text += (text.empty() ? "" : ", ") + replica + ": '" + what.substr(0, 40) + "'";
  return text.empty() ? "nobody" : text;
}
std::string seen(const Status& done) { return done.ok() ? "success" : done.error().text(); }

bool says(const Result<Said>& said, const Said& expected) { return said.ok() && *said == expected; }

Verdict alone_only() { return not_applicable("only one replica can join"); }

Verdict itself(BoardBench& bench) {
  const Replica& a = bench.join("a");
  if (const auto said = a.read(kTopic); !says(said, {{"a", ""}}))
    return failed("a replica that has joined is on its board, with an empty text", seen(said));
  for (const std::string& text : {kText, std::string("two"), std::string()}) {
    if (const Status published = a.publish(kTopic, text); !published.ok())
      return failed("publish() takes any text in UTF-8", seen(published));
    if (const auto said = a.read(kTopic); !says(said, {{"a", text}}))
      return failed("a replica reads its own last text at once", seen(said));
  }
  if (!a.publish(kTopic, kText).ok()) return not_judged("limits");
  if (const auto said = a.read("other"); !says(said, {{"a", ""}}))
    return failed("each topic has its own texts", seen(said));
  return passed(seen(a.read(kTopic)));
}

Verdict limits(BoardBench& bench) {
  const Replica& a = bench.join("a");
  const auto refused = [&](const std::string& topic, const std::string& text) {
    const Status published = a.publish(topic, text);
    return !published.ok() && published.error().code == ErrorCode::kInvalidArgument;
  };
  const std::string large(100'000, '"');
  for (const std::string& text : {kText, large})
    if (const Status published = a.publish(kTopic, text); !published.ok())
      return failed("a text of 100 kB fits", seen(published));
  const std::vector<std::pair<std::string, std::string>> bad{
      {kTopic, large + 'x'}, {kTopic, "\xff"}, {"no/topic", ""}, {std::string(64, 'a'), ""}};
  for (const auto& [topic, text] : bad)
    if (!refused(topic, text))
      return failed(
          "a text of more than 100 kB or not in UTF-8, and a topic that is no label, are refused "
          "with kInvalidArgument",
          "topic '" + topic + "' with " + std::to_string(text.size()) + " bytes was taken");
  if (!a.publish("second", large).ok())
    return failed("250 kB fit in all topics together", "the second text of 100 kB was refused");
  if (!refused("third", std::string(60'000, 'x')))
    return failed("more than 250 kB in all topics are refused", "260 kB were taken");
  if (const auto said = a.read(kTopic); !says(said, {{"a", large}}))
    return failed("after a refusal the last text stays", seen(said));
  return passed("100 kB, and 250 kB together");
}

Verdict others(BoardBench& bench) {
  if (!bench.platform().traits().several) return alone_only();
  const Replica &a = bench.join("a"), &b = bench.join("b");
  const std::string large(100'000, '"');
  for (const auto& [topic, text] : Said{{kTopic, kText}, {"large", large}, {"larger", large}})
    if (!a.publish(topic, text).ok()) return not_judged("limits");
  bench.settle();
  if (const auto said = b.read(kTopic); !says(said, {{"a", kText}, {"b", ""}}))
    return failed("each replica reads what the others said, and is on the board itself",
                  seen(said));
  for (const char* topic : {"large", "larger"})
    if (const auto said = b.read(topic); !says(said, {{"a", large}, {"b", ""}}))
      return failed("texts of 100 kB arrive as they were published", seen(said));
  if (!b.publish(kTopic, "two").ok() || !a.publish(kTopic, "three").ok())
    return not_judged("limits");
  bench.settle();
  for (const Replica* each : {&a, &b})
    if (const auto said = each->read(kTopic); !says(said, {{"a", "three"}, {"b", "two"}}))
      return failed("all replicas read the same, and the last text of each", seen(said));
  return passed(seen(a.read(kTopic)));
}

Verdict events(BoardBench& bench) {
  const Replica& a = bench.join("a");
  int heard = 0, silent = 0;
  const Subscription listening = a.board->subscribe([&] { ++heard; });
  Subscription ended = a.board->subscribe([&] { ++silent; });
  ended.reset();
  const auto told = [&] { return std::exchange(heard, 0) > 0; };
  if (!a.publish(kTopic, kText).ok()) return not_judged("limits");
  bench.settle();
  if (!told()) return failed("subscribers hear of every text", "nothing about its own text");
  if (bench.platform().traits().several) {
    Replica& b = bench.join("b");
    if (!told()) return failed("subscribers hear of a replica that appears", "nothing");
    if (!b.publish(kTopic, "two").ok()) return not_judged("limits");
    bench.settle();
    if (!told()) return failed("subscribers hear of every text", "nothing about another's text");
    b.board.reset();
    bench.settle();
    if (!told()) return failed("subscribers hear of a replica that disappears", "nothing");
  }
  if (silent != 0)
    return failed("no callback runs after its handle was destroyed", "one was called");
  return passed("every change was told");
}

Verdict stands(BoardBench& bench) {
  const Replica& a = bench.join("a");
  const ReplicaBoard& board = *a.board;
  if (board.leads()) return failed("a replica without a handle never leads", "it leads");
  int begun = 0, begun_late = 0;
  Subscription first = a.board->stand([&] { ++begun; });
  bench.settle();
  if (!board.leads()) return failed("a lone replica with a handle leads", "it does not");
  if (begun != 1)
    return failed("on_begin is called once when the replica begins to lead",
                  std::to_string(begun) + " calls");
  Subscription silent = a.board->stand({});
  Subscription late = a.board->stand([&] { ++begun_late; });
  bench.settle();
  if (begun != 1 || begun_late != 1)
    return failed("on_begin of a later handle is called once, if the replica leads already",
                  std::to_string(begun) + " and " + std::to_string(begun_late) + " calls");
  first.reset();
  late.reset();
  if (!board.leads()) return failed("a replica leads while any handle lives", "it does not");
  silent.reset();
  if (board.leads()) return failed("destroying the last handle resigns at once", "it leads");
  bench.settle();
  if (board.leads()) return failed("a replica without a handle never leads", "it leads");
  first = a.board->stand([&] { ++begun; });
  bench.settle();
  if (!board.leads() || begun != 2)
    return failed("a replica that stands again leads again, and is told",
                  std::to_string(begun) + " calls");
  first.reset();
  first = a.board->stand([&] { ++begun; });  // nobody else was faster
  bench.settle();
  if (!board.leads() || begun != 3 || begun_late != 1)
    return failed("a handle that follows at once is told, too", std::to_string(begun) + " calls");
  return passed("it leads while it holds a handle");
}

Verdict one_leader(BoardBench& bench) {
  if (!bench.platform().traits().several) return alone_only();
  const Replica &a = bench.join("a"), &b = bench.join("b");
  int begun = 0;
  Subscription first = a.board->stand({});
  bench.settle();
  Subscription second = b.board->stand([&] { ++begun; });
  bench.settle();
  if (bench.two_led()) return failed("at no time do two replicas lead", "two led");
  if (!a.board->leads() || begun != 0)
    return failed("whoever comes later waits", "the first one does not lead");
  first.reset();
  bench.settle();
  if (!b.board->leads() || begun != 1)
    return failed("when the leader resigns another one leads, and is told",
                  std::to_string(begun) + " calls");
  first = a.board->stand({});
  bench.settle();
  if (bench.two_led()) return failed("at no time do two replicas lead", "two led");
  if (!b.board->leads()) return failed("a replica that stands again waits", "it leads");
  second.reset();
  bench.settle();
  if (!a.board->leads()) return failed("the leader's place is taken again", "nobody leads");
  return passed("one after the other");
}

Verdict leaves(BoardBench& bench) {
  if (!bench.platform().traits().several) return alone_only();
  const Replica& a = bench.join("a");
  Replica& b = bench.join("b");
  if (const auto said = a.read(kTopic); !says(said, {{"a", ""}, {"b", ""}}))
    return not_judged("others");
  b.board.reset();
  bench.settle();
  if (const auto said = a.read(kTopic); !says(said, {{"a", ""}}))
    return failed("a replica that leaves is gone at once, and holds nobody up", seen(said));
  return passed("gone");
}

Verdict frozen(BoardBench& bench) {
  if (!bench.platform().traits().several) return alone_only();
  Replica &a = bench.join("a"), &b = bench.join("b");
  const Subscription first = a.board->stand({});
  bench.settle();
  const Subscription second = b.board->stand({});
  if (!a.publish(kTopic, kText).ok()) return not_judged("limits");
  bench.settle();
  if (!a.board->leads()) return not_judged("one-leader");
  bench.step("letting the leader stand still");
  a.runs = false;
  bench.expire();
  if (bench.two_led())
    return failed("a leader that stands still stops to lead before another one may begin",
                  "two led");
  if (!b.board->leads())
    return failed("when the leader stands still another one leads", "nobody leads");
  if (const auto said = b.read(kTopic); !says(said, {{"b", ""}}))
    return failed("a replica that stands still is gone", seen(said));
  bench.step("letting it go on");
  a.runs = true;
  bench.expire();
  if (bench.two_led() || !b.board->leads())
    return failed("a leader that comes back does not lead", "it leads");
  if (const auto said = b.read(kTopic); !says(said, {{"a", kText}, {"b", ""}}))
    return failed("a replica that goes on is back with its text", seen(said));
  return passed("another one led");
}

Verdict outage(BoardBench& bench) {
  if (!bench.platform().traits().outages) return not_applicable("the store is always reachable");
  const Replica& a = bench.join("a");
  const Subscription standing = a.board->stand({});
  bench.settle();
  if (!a.board->leads()) return not_judged("stands");
  bench.step("taking the store away");
  bench.platform().set_reachable(false);
  bench.expire();
  if (a.board->leads())
    return failed("a replica that is cut off from the store stops to lead", "it leads");
  const auto said = a.read(kTopic);
  if (said.ok() || said.error().code != ErrorCode::kUnavailable)
    return failed("read() is kUnavailable if the live replicas are not known", seen(said));
  if (const Status published = a.publish(kTopic, kText); !published.ok())
    return failed("publish() takes a text without the store", seen(published));
  bench.step("giving the store back");
  bench.platform().set_reachable(true);
  bench.expire();
  if (const auto back = a.read(kTopic); !says(back, {{"a", kText}}))
    return failed("when the store is back the board works again", seen(back));
  if (!a.board->leads()) return failed("when the store is back a replica leads", "nobody leads");
  return passed(said.error().text());
}

Suite<BoardBench> board_suite(const ReplicaBoardPlatformFactory& platform,
                              const ReplicaBoardConformanceOptions& options) {
  return {"replica board",
          "replica_board_clauses()",
          {
              {{"itself", "a replica is on its board, and reads its own texts at once"}, itself},
              {{"limits", "texts that do not fit are refused"}, limits},
              {{"others", "replicas read what the others said"}, others},
              {{"events", "subscribers hear of texts, and of who comes and goes"}, events},
              {{"stands", "a replica leads only while it holds a handle"}, stands},
              {{"one-leader", "one replica leads, and the next one when it resigns"}, one_leader},
              {{"leaves", "a replica that leaves is gone"}, leaves},
              {{"frozen", "a replica that stands still is gone, and does not lead"}, frozen},
              {{"outage", "without its store nobody leads"}, outage},
          },
          options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<BoardBench>(platform, options, on_step);
          }};
}

}  // namespace

std::vector<ConformanceClause> replica_board_clauses() {
  return listed(board_suite({}, {}).clauses);
}

ConformanceReport check_replica_board(const ReplicaBoardPlatformFactory& platform,
                                      const ReplicaBoardConformanceOptions& options) {
  return board_suite(platform, options).run_all();
}

ConformanceResult check_replica_board_clause(std::string_view id,
                                             const ReplicaBoardPlatformFactory& platform,
                                             const ReplicaBoardConformanceOptions& options) {
  return board_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
