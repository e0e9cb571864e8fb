// Judges what suites say about implementations of this project, and about those with a defect.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// The implementation passes every clause of its suite, but those that it is not asked about.
inline void judge(const ConformanceReport& report, const std::vector<ConformanceClause>& clauses,
                  std::size_t not_applicable) {
  const std::string text = report.text();
  CHECK_MESSAGE(report.passed(), text);
  CHECK(report.results.size() == clauses.size());
  const auto skipped = std::ranges::count(report.results, ConformanceOutcome::kNotApplicable,
                                          &ConformanceResult::outcome);
  CHECK_MESSAGE(static_cast<std::size_t>(skipped) == not_applicable, text);
}

inline void passes(const PlatformFactory& platform, std::size_t not_applicable = 0) {
  const auto begun = std::chrono::steady_clock::now();
  // A busy machine needs longer than a developer's, for whom the defaults are.
  ConformanceOptions options;
  options.deadline = std::chrono::seconds(20);
  options.clause_deadline = std::chrono::minutes(2);
  options.call_limit = std::chrono::seconds(5);
  const ConformanceReport report = check_provider(platform, options);
  const auto took = std::chrono::steady_clock::now() - begun;
  judge(report, conformance_clauses(), not_applicable);
  MESSAGE(std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms\n"
                                                                              << report.text());
}

// Each of the cases {defect, clause, seen} fails its clause, with these words. `check`: the result
// of a clause for an implementation with the defect.
template <class Case, class Defect>
void check_defects(
    const std::vector<Case>& cases,
    const std::function<ConformanceResult(const std::string& clause, Defect)>& check) {
  for (const Case& each : cases) {
    CAPTURE(std::string(each.clause));
    const ConformanceResult result = check(each.clause, each.defect);
    CHECK_MESSAGE(result.outcome == ConformanceOutcome::kFailed, result.seen);
    CHECK_MESSAGE(result.seen.find(each.seen) != std::string::npos, result.seen);
  }
}

// Every clause has a case, and a clause that is none fails.
template <class Case>
void check_coverage(const std::vector<Case>& cases, const std::vector<ConformanceClause>& clauses,
                    const ConformanceResult& of_no_clause) {
  for (const ConformanceClause& clause : clauses)
    CHECK_MESSAGE(
        std::ranges::any_of(cases, [&](const Case& one) { return clause.id == one.clause; }),
        clause.id);
  CHECK(of_no_clause.outcome == ConformanceOutcome::kFailed);
}

}  // namespace osm::inline v1::testing
