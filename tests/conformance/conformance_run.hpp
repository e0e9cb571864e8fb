// Runs the suite on a provider of this project.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

inline void passes(const PlatformFactory& platform, std::size_t not_applicable = 0) {
  const auto begun = std::chrono::steady_clock::now();
  // A busy machine needs longer than a developer's, for whom the defaults are.
  ConformanceOptions options;
  options.deadline = std::chrono::seconds(20);
  options.clause_deadline = std::chrono::minutes(2);
  options.call_limit = std::chrono::seconds(5);
  const ConformanceReport report = check_provider(platform, options);
  const auto took = std::chrono::steady_clock::now() - begun;
  const std::string text = report.text();
  CHECK_MESSAGE(report.passed(), text);
  CHECK(report.results.size() == conformance_clauses().size());
  std::size_t skipped = 0;
  for (const ConformanceResult& result : report.results)
    skipped += result.outcome == ConformanceOutcome::kNotApplicable ? 1 : 0;
  CHECK_MESSAGE(skipped == not_applicable, text);
  MESSAGE(std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms\n" << text);
}

}  // namespace osm::inline v1::testing
