#include "osm/testing/provider_conformance.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "testing/conformance_trial.hpp"
#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {
namespace {

std::vector<ClauseEntry> all_clauses() {
  std::vector<ClauseEntry> all;
  for (const auto& some : {first_list_clauses(), answer_clauses(), outage_clauses(),
                           conduct_clauses(), workload_clauses(), workload_conduct_clauses()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

Verdict try_entry(const ClauseEntry& entry, const PlatformFactory& factory,
                  const ConformanceOptions& options) {
  return try_clause(entry.clause, options.clause_deadline, "provider",
                    [entry, factory, options](const auto& on_step) {
                      Bench bench(factory, options, on_step);
                      return entry.check(bench);
                    });
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
  return subject + " conformance: " + std::to_string(good) + " of " +
         std::to_string(results.size()) + " clauses hold\n\n" + rows + details;
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
    report.results.push_back(syncs ? try_entry(entry, platform, options) : not_judged("synced"));
    report.results.back().clause = entry.clause;
    if (report.results.size() == 1) syncs = report.results.front().ok();
  }
  return report;
}

ConformanceResult check_provider_clause(std::string_view id, const PlatformFactory& platform,
                                        const ConformanceOptions& options) {
  for (const ClauseEntry& entry : all_clauses())
    if (id == entry.clause.id) return try_entry(entry, platform, options);
  Verdict verdict = failed("no such clause; conformance_clauses() lists them", {});
  verdict.clause.id = id;
  return verdict;
}

}  // namespace osm::inline v1::testing
