// Each defect of a provider fails exactly the clause about it.
#include "broken_provider.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>

#include "lib/growing_time.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::testing;
using namespace std::chrono_literals;

namespace {

struct Case {
  Defect defect;
  const char* name;
  const char* clause;
  const char* explanation;  // a part of it
  const char* seen;         // a part of it
};

const std::vector<Case> kCases{
    {Defect::kNeverSyncs, "never syncs", "synced", "has_synced() must turn true",
     "has_synced() was false until the deadline"},
    {Defect::kSyncsHalfway, "syncs with half a list", "synced",
     "must not turn true before the list is complete", "25 of 50 services are not as"},
    {Defect::kSyncsSilently, "syncs without a word", "synced", "must be announced",
     "the mesh has not heard of it"},
    {Defect::kSyncsEarly, "syncs before it could", "not-ready", "has not been reachable yet",
     "has_synced() is true"},
    {Defect::kSilent, "changes without a word", "events", "every change must be announced",
     "no announcement of shop/books after a new service"},
    {Defect::kAnnouncesFirst, "announces before it can be read", "events",
     "must be readable before it is announced", "inside the announcement of a new service"},
    {Defect::kTakesOldForDuplicate, "takes a return for a duplicate", "order",
     "nothing is a duplicate because it was seen before", "10.0.0.4:8080"},
    {Defect::kForgetsUnmodified, "answers 'not modified' with nothing", "order",
     "asking again without a change must give the same answer", "asked 100 times, [] in place of"},
    {Defect::kUnknownIsEmpty, "knows what is not there", "zero-is-not-gone", "unknown (nullopt)",
     "never on the platform: shop/music is [] to the provider"},
    {Defect::kEmptyIsUnknown, "forgets what is empty", "zero-is-not-gone", "known (an empty list)",
     "without endpoints: shop/books is unknown to the provider"},
    {Defect::kIdentityByAddress, "infers who from where", "identity", "never from its address",
     "as shop/books"},
    {Defect::kMakesIdentityFit, "makes an account fit", "spoofed-identity",
     "never under a name made to fit", "who claims 'elsewhere/books' is served"},
    {Defect::kDropsZone, "drops the zone", "optionals", "must arrive as the platform has them",
     "in place of [10.0.0.3:8080"},
    {Defect::kDefaultsWeight, "makes a weight up", "optionals",
     "what it does not say must be absent", "weight 1"},
    {Defect::kSharesState, "shares state between instances", "merge", "share nothing",
     "the first lists"},
    {Defect::kFoldsCase, "asks in any case", "names", "a name that is not canonical is unknown",
     "'shop/Strange' is [10."},
    {Defect::kAnnouncesRawNames, "announces the platform's names", "names",
     "announced by their canonical name", "the provider announced '"},
    {Defect::kFlushes, "loses endpoints with the platform", "lost",
     "an outage of the platform becomes one of the mesh", "gives unknown in place of [10.0.0.3"},
    {Defect::kSeemsHealthy, "hides an outage", "lost", "healthy() must be false",
     "healthy() was true until the deadline"},
    {Defect::kLosesSilently, "turns unhealthy without a word", "stale",
     "a change of healthy() must be announced", "healthy() is false, but the mesh"},
    {Defect::kNeverReturns, "stays unhealthy", "recovers", "healthy() must turn true",
     "healthy() was false until the deadline"},
    {Defect::kMissesChanges, "does not look again", "recovers",
     "what changed during an outage must be listed", "shop/books is [10.0.0.3"},
    {Defect::kExpires, "expires endpoints", "clock", "no time makes them expire", "after a week"},
    {Defect::kBlocks, "asks the platform when it is asked", "non-blocking",
     "must answer from the provider's memory", "ms while the platform was unreachable"},
    {Defect::kLocks, "announces under its lock", "callbacks", "announce without a lock",
     "did not return while a callback ran"},
    {Defect::kOverlaps, "announces on two threads", "callbacks", "callbacks come one at a time",
     "two callbacks ran at once"},
    {Defect::kThrows, "throws", "errors-are-values", "nothing a provider does throws",
     "threw 'connection refused'"},
    {Defect::kQueues, "queues every change", "flood", "a flood is coalesced, not queued",
     "memory grew by"},
    {Defect::kEndsWithoutWaiting, "ends without waiting", "stop", "it waits for one that does",
     "after the destructor, in round"},
    {Defect::kNeverUnsubscribes, "never unsubscribes", "stop", "no callback runs and none will",
     "after the destructor, in round"},
    {Defect::kRenames, "changes its name", "reported", "short constant name", "', then 'broken-"},
    {Defect::kListsHalfTheWorkloads, "lists half of the workloads", "workloads-complete",
     "must not turn true before the list is complete", "10 of 20 are missing"},
    {Defect::kListsInReverse, "lists workloads in reverse", "workloads-ordered", "ordered by name",
     "is before"},
    {Defect::kFindsOther, "finds a workload otherwise than it lists it", "workloads-found",
     "agrees with list_workloads()", "is listed, and found as"},
    {Defect::kAccountByAddress, "infers a workload's account", "workloads-account",
     "never one of its address", "as shop/archive"},
    {Defect::kKeepsServices, "keeps services that a workload left", "workloads-services",
     "services are those whose endpoints", "serves: shop/books in place of"},
    {Defect::kDropsCopies, "drops a copy of a UUID without a word", "workloads-uuids",
     "those that are left out are in list_problems()", "neither listed nor reported"},
    {Defect::kChangesKind, "changes the kind", "workloads-kind", "never changes",
     "it changed with the workload's address"},
    {Defect::kWorkloadsSilently, "changes workloads without a word", "workloads-events",
     "announced by the workload's name", "no announcement of shop/workload-1"},
    {Defect::kForgetsWorkloads, "loses workloads with the platform", "workloads-lost",
     "removes no workload", "unknown in place of"},
    {Defect::kThrowsForWorkloads, "throws about workloads", "workloads-quiet", "throws",
     "threw 'no answer about workloads'"},
    {Defect::kEndsWorkloadsWithoutWaiting, "ends workloads without waiting", "workloads-stop",
     "no callback runs and none will", "after the destructor, in round"},
};

// Small numbers: the defects show at once, or never. `time`: of an idle machine, or more.
ConformanceOptions quick(std::chrono::milliseconds time = 10s) {
  ConformanceOptions options;
  options.deadline = options.call_limit = time;
  options.clause_deadline = 2min;
  options.flood_events = 20'000;
  options.flood_budget = 500ms;
  options.stop_rounds = 60;
  return options;
}

ConformanceReport check(Defect defect, std::chrono::milliseconds time) {
  return check_provider([=] { return std::make_unique<BrokenPlatform>(defect, time + 100ms); },
                        quick(time));
}

// Ids of the clauses that fail.
std::string failing(const ConformanceReport& report) {
  std::string ids;
  for (const ConformanceResult& result : report.results)
    if (result.outcome == ConformanceOutcome::kFailed)
      ids += (ids.empty() ? "" : ", ") + result.clause.id;
  return ids;
}

bool finds(const Case& broken, const ConformanceReport& report) {
  if (report.passed() || failing(report) != broken.clause) return false;
  const std::string text = report.text();
  return std::ranges::any_of(report.results, [&](const ConformanceResult& result) {
    return result.clause.id == broken.clause &&
           result.explanation.find(broken.explanation) != std::string::npos &&
           result.seen.find(broken.seen) != std::string::npos &&
           text.find(result.clause.id + ": " + result.explanation) != std::string::npos;
  });
}

}  // namespace

TEST_SUITE("check_provider") {
  TEST_CASE("the provider whose defects follow has none by itself") {
    const ConformanceReport report = check(Defect::kNone, 10s);
    CHECK_MESSAGE(report.passed(), report.text());
  }

  TEST_CASE("a provider with one defect fails exactly the clause about it, in clear text") {
    for (const Case& broken : kCases) {
      INFO(std::string(broken.name));
      ConformanceReport report;
      const bool found = with_growing_time(300ms, [&](std::chrono::milliseconds time) {
        report = check(broken.defect, time);
        return finds(broken, report);
      });
      CHECK_MESSAGE(found, report.text());
    }
  }

  TEST_CASE("every clause has a defect that it alone finds") {
    std::set<std::string> found;
    for (const Case& broken : kCases) found.insert(broken.clause);
    std::set<std::string> all;
    for (const ConformanceClause& clause : conformance_clauses()) all.insert(clause.id);
    CHECK(found == all);
  }

  TEST_CASE("no other clause is judged for a provider that never syncs") {
    const ConformanceReport report = check(Defect::kNeverSyncs, 300ms);
    for (std::size_t i = 1; i < report.results.size(); ++i) {
      CHECK(report.results[i].outcome == ConformanceOutcome::kNotJudged);
      CHECK(report.results[i].explanation == "needs the clause synced to pass first");
    }
  }
}

namespace {

// A platform whose provider hangs when the platform is away, until it is let go.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  std::atomic<int> alive = 0;

  void pass() {
    std::unique_lock lock(mutex);
    opened.wait(lock, [&] { return open; });
  }
  void let_go() {
    std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

class HangingPlatform final : public ProviderPlatform {
 public:
  explicit HangingPlatform(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) { ++gate_->alive; }
  ~HangingPlatform() override { --gate_->alive; }
  std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) override {
    return inner_.start(runtime);
  }
  void set_endpoints(const ServiceName& service, const std::vector<Endpoint>& endpoints) override {
    inner_.set_endpoints(service, endpoints);
  }
  void remove_service(const ServiceName& service) override { inner_.remove_service(service); }
  void set_reachable(bool) override { gate_->pass(); }

 private:
  std::shared_ptr<Gate> gate_;
  BrokenPlatform inner_{Defect::kNone};
};

class ThrowingPlatform final : public ProviderPlatform {
 public:
  std::unique_ptr<EndpointsProvider> start(const Runtime&) override {
    throw std::runtime_error("no credentials");
  }
  void set_endpoints(const ServiceName&, const std::vector<Endpoint>&) override {}
  void remove_service(const ServiceName&) override {}
  void set_reachable(bool) override {}
};

}  // namespace

TEST_SUITE("check_provider_clause") {
  TEST_CASE("a hanging clause is reported with its last step and abandoned") {
    const auto gate = std::make_shared<Gate>();
    CHECK(with_growing_time(500ms, [&](std::chrono::milliseconds time) {
      ConformanceOptions options = quick(time);
      options.clause_deadline = time;
      const ConformanceResult result = check_provider_clause(
          "lost", [gate] { return std::make_unique<HangingPlatform>(gate); }, options);
      return result.outcome == ConformanceOutcome::kFailed &&
             result.explanation == "every call returns: the clause must end within " +
                                       std::to_string(time.count()) + " ms" &&
             result.seen == "it hangs while taking the platform away";
    }));
    gate->let_go();
    CHECK(wait_until([&] { return gate->alive == 0; }));
  }

  TEST_CASE("a provider that throws at its start fails with the exception's text") {
    const ConformanceResult result = check_provider_clause(
        "events", [] { return std::make_unique<ThrowingPlatform>(); }, quick());
    CHECK(result.outcome == ConformanceOutcome::kFailed);
    CHECK(result.seen == "no credentials");
  }

  TEST_CASE("a clause that does not exist fails") {
    const ConformanceResult result = check_provider_clause(
        "sync", [] { return std::make_unique<BrokenPlatform>(Defect::kNone); });
    CHECK_FALSE(result.ok());
    CHECK(result.explanation == "no such clause; conformance_clauses() lists them");
  }
}
