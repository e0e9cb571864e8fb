#include "osm/testing/provider_conformance.hpp"

#include <algorithm>
#include <array>
#include <utility>

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

Suite<Bench> provider_suite(const PlatformFactory& platform, const ConformanceOptions& options) {
  return {"provider", "conformance_clauses()", all_clauses(), options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<Bench>(platform, options, on_step);
          }};
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

std::vector<ConformanceClause> conformance_clauses() { return listed(all_clauses()); }

ConformanceReport check_provider(const PlatformFactory& platform,
                                 const ConformanceOptions& options) {
  return provider_suite(platform, options).run_all();
}

ConformanceResult check_provider_clause(std::string_view id, const PlatformFactory& platform,
                                        const ConformanceOptions& options) {
  return provider_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
