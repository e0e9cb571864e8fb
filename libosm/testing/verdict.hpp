// Results of the clauses of a conformance suite.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

using RealTime = std::chrono::steady_clock;

using Verdict = ConformanceResult;  // whoever ran the clause adds it

inline Verdict passed(std::string seen) {
  return {{}, ConformanceOutcome::kPassed, {}, std::move(seen)};
}
inline Verdict failed(std::string explanation, std::string seen) {
  return {{}, ConformanceOutcome::kFailed, std::move(explanation), std::move(seen)};
}
inline Verdict not_applicable(std::string explanation) {
  return {{}, ConformanceOutcome::kNotApplicable, std::move(explanation), {}};
}
inline Verdict not_judged(const std::string& clause) {
  return {{}, ConformanceOutcome::kNotJudged, "needs the clause " + clause + " to pass first", {}};
}

}  // namespace osm::inline v1::testing
