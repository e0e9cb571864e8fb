// A conformance suite: clauses, each of which runs in a bench of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "testing/conformance_trial.hpp"
#include "testing/verdict.hpp"

namespace osm::inline v1::testing {

// Notes the present step of a clause, for the report of a hang.
using OnStep = std::function<void(std::string)>;

template <class Bench>
struct SuiteClause {
  ConformanceClause clause;
  Verdict (*check)(Bench& bench);
};

template <class Bench>
std::vector<ConformanceClause> listed(const std::vector<SuiteClause<Bench>>& clauses) {
  std::vector<ConformanceClause> out;
  for (const SuiteClause<Bench>& entry : clauses) out.push_back(entry.clause);
  return out;
}

template <class Bench>
struct Suite {
  std::string subject;                      // in reports: "store"
  std::string lister;                       // "store_clauses()"
  std::vector<SuiteClause<Bench>> clauses;  // the others need the first one
  std::chrono::milliseconds deadline;       // of a clause
  // Makes a bench. It owns copies of all that it uses, because a clause that hangs is abandoned.
  std::function<std::unique_ptr<Bench>(const OnStep& on_step)> open;

  ConformanceResult run(const SuiteClause<Bench>& entry) const {
    return try_clause(entry.clause, deadline, subject,
                      [check = entry.check, make = open](const OnStep& on_step) {
                        const std::unique_ptr<Bench> bench = make(on_step);
                        return check(*bench);
                      });
  }

  ConformanceReport run_all() const {
    ConformanceReport report;
    report.subject = subject;
    for (const SuiteClause<Bench>& entry : clauses) {
      const bool judged = report.results.empty() || report.results.front().ok();
      report.results.push_back(judged ? run(entry) : not_judged(clauses.front().clause.id));
      report.results.back().clause = entry.clause;
    }
    return report;
  }

  ConformanceResult run_one(std::string_view id) const {
    for (const SuiteClause<Bench>& entry : clauses)
      if (id == entry.clause.id) return run(entry);
    Verdict verdict = failed("no such clause; " + lister + " lists them", {});
    verdict.clause.id = id;
    return verdict;
  }
};

}  // namespace osm::inline v1::testing
