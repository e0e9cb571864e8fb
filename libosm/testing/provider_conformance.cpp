#include "osm/testing/provider_conformance.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "base/guarded.hpp"
#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {
namespace {

std::vector<ClauseEntry> all_clauses() {
  std::vector<ClauseEntry> all;
  for (const auto& some :
       {first_list_clauses(), answer_clauses(), outage_clauses(), conduct_clauses()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

// State shared by a clause's thread and its waiting thread; it outlives both.
struct Trial {
  Trial(const ClauseEntry& clause, PlatformFactory platform, ConformanceOptions how)
      : entry(clause), factory(std::move(platform)), options(std::move(how)) {}

  const ClauseEntry entry;
  const PlatformFactory factory;
  const ConformanceOptions options;

  std::mutex mutex;
  std::string step = "making the platform";

  Verdict run() {
    auto verdict = guarded([this] {
      Bench bench(factory, options, [this](std::string what) {
        std::lock_guard lock(mutex);
        step = std::move(what);
      });
      return entry.check(bench);
    });
    if (verdict.ok()) return *std::move(verdict);
    return failed("nothing of a provider or of its platform throws", verdict.error().message);
  }
};

Verdict try_clause(const ClauseEntry& entry, const PlatformFactory& factory,
                   const ConformanceOptions& options) {
  const auto trial = std::make_shared<Trial>(entry, factory, options);
  std::packaged_task<Verdict()> run([trial] { return trial->run(); });
  auto verdict = run.get_future();
  std::thread thread(std::move(run));
  Verdict result;
  if (verdict.wait_for(options.clause_deadline) == std::future_status::ready) {
    thread.join();
    result = verdict.get();
  } else {
    thread.detach();
    std::lock_guard lock(trial->mutex);
    result = failed("every call returns: the clause must end within " +
                        std::to_string(options.clause_deadline.count()) + " ms",
                    "it hangs while " + trial->step);
  }
  result.clause = entry.clause;
  return result;
}

// In the order of ConformanceOutcome.
constexpr std::array<const char*, 4> kWords{"passed", "FAILED", "not applicable", "not judged"};
static_assert(static_cast<std::size_t>(ConformanceOutcome::kNotJudged) + 1 == kWords.size());

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

}  // namespace

bool ConformanceReport::passed() const {
  return !results.empty() && std::all_of(results.begin(), results.end(),
                                         [](const auto& result) { return result.ok(); });
}

std::string ConformanceReport::text() const {
  std::string rows, details;
  std::size_t good = 0;
  for (const ConformanceResult& result : results) {
    good += result.ok() ? 1 : 0;
    rows += padded(kWords.at(static_cast<std::size_t>(result.outcome)), 15) +
            padded(result.clause.id, 19) + result.clause.title + '\n';
    if (result.outcome == ConformanceOutcome::kPassed) {
      rows += padded("", 34) + result.seen + '\n';
      continue;
    }
    details += '\n' + result.clause.id + ": " + result.explanation +
               (result.seen.empty() ? "" : "\n  seen: " + result.seen) + '\n';
  }
  return "provider conformance: " + std::to_string(good) + " of " + std::to_string(results.size()) +
         " clauses hold\n\n" + rows + details;
}

std::vector<ConformanceClause> conformance_clauses() {
  std::vector<ConformanceClause> out;
  for (const ClauseEntry& entry : all_clauses()) out.push_back(entry.clause);
  return out;
}

ConformanceReport check_provider(const PlatformFactory& platform,
                                 const ConformanceOptions& options) {
  ConformanceReport report;
  bool syncs = true;
  for (const ClauseEntry& entry : all_clauses()) {
    report.results.push_back(syncs ? try_clause(entry, platform, options) : not_judged("synced"));
    report.results.back().clause = entry.clause;
    if (report.results.size() == 1) syncs = report.results.front().ok();
  }
  return report;
}

ConformanceResult check_provider_clause(std::string_view id, const PlatformFactory& platform,
                                        const ConformanceOptions& options) {
  for (const ClauseEntry& entry : all_clauses())
    if (id == entry.clause.id) return try_clause(entry, platform, options);
  Verdict verdict = failed("no such clause; conformance_clauses() lists them", {});
  verdict.clause.id = id;
  return verdict;
}

}  // namespace osm::inline v1::testing
