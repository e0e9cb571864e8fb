// Conformance suite for EndpointsProviders and WorkloadProviders. Every provider of this project
// passes it, and vendors can show its report to their customers. docs/provider-guide.md explains
// each clause.
//
// A provider's author writes a ProviderPlatform: a test's access to the platform (put endpoints on
// it, break it, repair it). The suite starts the provider on fresh platforms, changes them, and
// watches the provider and the behaviour of a real mesh on its answers. It needs no test framework:
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

#include "osm/detail/api.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::testing {

// Capabilities of a platform. Clauses about a missing capability are not applicable.
struct PlatformTraits {
  bool zones = true;        // Endpoint::zone
  bool weights = true;      // Endpoint::weight
  bool health = true;       // Endpoint::healthy
  bool outages = true;      // the platform can be unreachable
  bool knows_empty = true;  // the platform can have a service without endpoints
  bool workloads = false;   // it runs proxies: start()'s provider is a WorkloadProvider as well
};

// A platform with one provider on it. It begins reachable and empty, without the provider. The
// suite may put services on it, and break it, before start().
//
// For every call: Thread: one at a time, not always the same. Blocking: as the platform's own tools
// do. The provider may see a change at once or later; the suite waits.
class OSM_API ProviderPlatform {
 public:
  virtual ~ProviderPlatform() = default;

  // Capabilities of this platform. Default: all.
  virtual PlatformTraits traits() const { return {}; }

  // Starts the provider under test. Called once; the suite destroys the provider before the
  // platform. `runtime` outlives the provider. The suite runs both executors on one thread at a
  // time; their timers follow the suite's clock, on which a week may pass in a moment.
  virtual std::unique_ptr<EndpointsProvider> start(const Runtime& runtime) = 0;

  // Puts `service` on the platform, with exactly these endpoints. The platform refuses invalid
  // input (a strange name, an account of another namespace) as it does for any user.
  virtual void set_endpoints(const ServiceName& service,
                             const std::vector<Endpoint>& endpoints) = 0;
  // Removes `service` from the platform.
  virtual void remove_service(const ServiceName& service) = 0;

  // Puts this workload on the platform, or replaces the one of its name. The services that it names
  // (of namespace "shop", one at most) list its address under its account, on port 8080 for the
  // port "http"; other services do not list it any more. Called only if traits().workloads is true.
  virtual void set_workload(const Workload& /*workload*/) {}
  // Removes the workload, and its endpoints.
  virtual void remove_workload(const WorkloadName& /*name*/) {}

  // While false, the provider cannot read the platform, which goes on changing. Called only if
  // traits().outages is true.
  virtual void set_reachable(bool reachable) = 0;

  // Delivers pending changes, on platforms that need a call for it. The suite calls it repeatedly
  // while it waits.
  virtual void pump() {}
};

using PlatformFactory = std::function<std::unique_ptr<ProviderPlatform>()>;

// Deadlines and effort of the suite.
struct ConformanceOptions {
  // Time until a change of the platform must be visible through the provider, in real time.
  std::chrono::milliseconds deadline{2000};
  // Time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
  // Limit for a call that must not block.
  std::chrono::milliseconds call_limit{250};
  // The flood: number of announcements that reach the mesh while it is busy. The platform changes
  // for the duration of the budget and at most that often; the rest are repetitions.
  std::size_t flood_events = 1'000'000;
  std::chrono::milliseconds flood_budget{1000};
  // Limit for growth of the memory in use during the flood (for what stays after it less, if the
  // platform changes seldom: 32 bytes for each change), and the function that measures it. Default:
  // the allocations of the C library or of a sanitizer; a host with its own allocator passes its
  // own function.
  std::size_t flood_growth_bytes = 512 * 1024;
  std::function<std::size_t()> memory_in_use;
  std::size_t stop_rounds = 300;  // rounds of the race between changes and unsubscribing
  std::uint64_t seed = 1;         // seed of the random inputs
};

// Outcome of a clause.
enum class ConformanceOutcome {
  kPassed,         // the provider meets the clause
  kFailed,         // it does not meet it; the explanation says what to do
  kNotApplicable,  // the platform lacks the capability
  kNotJudged,      // another clause must pass first; the explanation names it
};

// One clause of the contract.
struct ConformanceClause {
  std::string id;     // "zero-is-not-gone"; never changes
  std::string title;  // the promise, as a sentence
};

// Result of one clause, with the reason.
struct ConformanceResult {
  ConformanceClause clause;
  ConformanceOutcome outcome = ConformanceOutcome::kNotJudged;
  std::string explanation;  // kFailed: expected behaviour and what to do; else the reason
  std::string seen;         // the observed behaviour

  // True for kPassed and kNotApplicable.
  bool ok() const {
    return outcome == ConformanceOutcome::kPassed || outcome == ConformanceOutcome::kNotApplicable;
  }
};

// Results of all clauses.
struct ConformanceReport {
  std::vector<ConformanceResult> results;  // in the order of conformance_clauses()
  std::string subject = "provider";        // "store": of store_conformance.hpp

  // True if every result is ok().
  OSM_API bool passed() const;
  // A table with one row per clause, followed by failures and their reasons.
  OSM_API std::string text() const;
};

// Every clause, in the best order to read and to repair.
OSM_API std::vector<ConformanceClause> conformance_clauses();

// Checks all clauses. It stops at the first one if the provider never syncs, since nothing else can
// be judged then.
// Failure: none; exceptions and hangs of the provider are in the report.
// Thread: any; the suite starts a thread per clause. Blocking: until done; the options' deadlines
// bound the time (some seconds).
OSM_API ConformanceReport check_provider(const PlatformFactory& platform,
                                         const ConformanceOptions& options = {});

// Checks one clause, so that any test framework can make each clause a test of its own. An unknown
// id fails.
OSM_API ConformanceResult check_provider_clause(std::string_view id,
                                                const PlatformFactory& platform,
                                                const ConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
