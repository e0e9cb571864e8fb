// Whether an EndpointsProvider keeps its contract: the suite that every provider of this project
// passes, and that a vendor shows its customers. docs/provider-guide.md explains each clause.
//
// A provider's author writes a ProviderPlatform: the platform as a test sees it (put endpoints on
// it, break it, mend it). The suite starts the provider on fresh platforms, changes them, and
// watches both the provider and what a real mesh makes of its answers. No test framework is needed:
//
//   const auto report = osm::testing::check_provider([] { return std::make_unique<MyPlatform>();
//   }); std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::testing {

// What a provider is given to live on. All of it outlives the provider.
struct ProviderSurroundings {
  Executor& executor;  // run by the suite, on one thread at a time; its timers follow `clock`
  const Clock& clock;  // the suite's: a week may pass in a moment
  LogSink& log;
  MetricsSink& metrics;
};

// What a platform can say. Clauses about what it cannot are not applicable.
struct PlatformTraits {
  bool zones = true;        // Endpoint::zone
  bool weights = true;      // Endpoint::weight
  bool health = true;       // Endpoint::healthy
  bool outages = true;      // it can be unreachable
  bool knows_empty = true;  // a service can exist there without endpoints
};

// A platform with one provider on it. Begins reachable, empty, without the provider; services may
// be put on it, and it may be broken, before start().
//
// Every call: Thread: one at a time, not always the same. Blocking: as the platform's own tools do.
// The provider may see a change at once or later; the suite waits.
class OSM_API ProviderPlatform {
 public:
  virtual ~ProviderPlatform() = default;

  // What this platform can say; preset: everything.
  virtual PlatformTraits traits() const { return {}; }

  // The provider under test. Called once; the suite destroys it before the platform.
  virtual std::unique_ptr<EndpointsProvider> start(const ProviderSurroundings& surroundings) = 0;

  // From now on the platform has `service`, with exactly these endpoints. What the platform cannot
  // hold (a strange name, an account of another namespace) it refuses as it would anybody's.
  virtual void set_endpoints(const ServiceName& service,
                             const std::vector<Endpoint>& endpoints) = 0;
  // From now on the platform does not have `service`.
  virtual void remove_service(const ServiceName& service) = 0;

  // While false the provider cannot read the platform, which goes on changing. Called only with
  // traits().outages.
  virtual void set_reachable(bool reachable) = 0;

  // Lets news travel, if somebody must: called again and again while the suite waits.
  virtual void pump() {}
};

using PlatformFactory = std::function<std::unique_ptr<ProviderPlatform>()>;

// How patient and how thorough the suite is.
struct ConformanceOptions {
  // How long the platform may take to become visible through the provider, in real time.
  std::chrono::milliseconds deadline{2000};
  // After so long a clause counts as hung. Its thread is left behind with what it hangs in.
  std::chrono::milliseconds clause_deadline{30000};
  // How long a call that must not block may take.
  std::chrono::milliseconds call_limit{250};
  // The flood: so many announcements reach the mesh while it is busy. The platform changes for as
  // long as the budget lasts, at most so often; the rest are repetitions.
  std::size_t flood_events = 1'000'000;
  std::chrono::milliseconds flood_budget{1000};
  // By how much the memory in use may grow in the flood (less where the platform changes seldom: 32
  // bytes for each change), and how to ask for it. Preset: what the C library, or a sanitizer, has
  // allocated; a host with an allocator of its own passes its own.
  std::size_t flood_growth_bytes = 512 * 1024;
  std::function<std::size_t()> memory_in_use;
  std::size_t stop_rounds = 300;  // of the race between changes and unsubscribing
  std::uint64_t seed = 1;         // of everything random
};

// What came of a clause.
enum class ConformanceOutcome {
  kPassed,         // the provider keeps it
  kFailed,         // it does not; the explanation says what to do
  kNotApplicable,  // the platform cannot say what the clause is about
  kNotJudged,      // another clause must pass first; the explanation names it
};

// One promise of the contract.
struct ConformanceClause {
  std::string id;     // "zero-is-not-gone"; never changes
  std::string title;  // what is promised, as a sentence
};

// What came of one clause, and why.
struct ConformanceResult {
  ConformanceClause clause;
  ConformanceOutcome outcome = ConformanceOutcome::kNotJudged;
  std::string explanation;  // kFailed: what was expected and what to do; else why not
  std::string seen;         // what was observed

  // Whether nothing speaks against the provider: kPassed or kNotApplicable.
  bool ok() const {
    return outcome == ConformanceOutcome::kPassed || outcome == ConformanceOutcome::kNotApplicable;
  }
};

// What came of all of them.
struct ConformanceReport {
  std::vector<ConformanceResult> results;  // in the order of conformance_clauses()

  // Whether every result is ok().
  OSM_API bool passed() const;
  // A table with a row for each clause, and below it what failed and why.
  OSM_API std::string text() const;
};

// Every clause, in the order they are best read and mended.
OSM_API std::vector<ConformanceClause> conformance_clauses();

// All clauses. Stops at the first when the provider never syncs: nothing else can be judged then.
// Thread: any; the suite starts a thread for each clause. Blocking: until done, which is bounded by
// the options' deadlines (some seconds). Failure: none: whatever the provider throws or however it
// hangs is in the report.
OSM_API ConformanceReport check_provider(const PlatformFactory& platform,
                                         const ConformanceOptions& options = {});

// One clause, so that any test framework can make each a test of its own. An unknown id is failed.
OSM_API ConformanceResult check_provider_clause(std::string_view id,
                                                const PlatformFactory& platform,
                                                const ConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
