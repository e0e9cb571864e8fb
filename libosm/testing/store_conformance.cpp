#include "osm/testing/store_conformance.hpp"

#include <utility>

#include "testing/conformance_trial.hpp"
#include "testing/store_bench.hpp"

namespace osm::inline v1::testing {
namespace {

std::vector<StoreClause> all_store_clauses() {
  std::vector<StoreClause> all = store_list_clauses();
  for (StoreClause& clause : store_outage_clauses()) all.push_back(std::move(clause));
  return all;
}

Verdict try_store_clause(const StoreClause& entry, const StorePlatformFactory& factory,
                         const StoreConformanceOptions& options) {
  return try_clause(entry.clause, options.clause_deadline, "store",
                    [entry, factory, options](const auto& on_step) {
                      StoreBench bench(factory, options, on_step);
                      return entry.check(bench);
                    });
}

}  // namespace

std::vector<ConformanceClause> store_clauses() {
  std::vector<ConformanceClause> out;
  for (const StoreClause& entry : all_store_clauses()) out.push_back(entry.clause);
  return out;
}

ConformanceReport check_store(const StorePlatformFactory& platform,
                              const StoreConformanceOptions& options) {
  ConformanceReport report;
  report.subject = "store";
  bool syncs = true;
  for (const StoreClause& entry : all_store_clauses()) {
    report.results.push_back(syncs ? try_store_clause(entry, platform, options)
                                   : not_judged("synced"));
    report.results.back().clause = entry.clause;
    if (report.results.size() == 1) syncs = report.results.front().ok();
  }
  return report;
}

ConformanceResult check_store_clause(std::string_view id, const StorePlatformFactory& platform,
                                     const StoreConformanceOptions& options) {
  for (const StoreClause& entry : all_store_clauses())
    if (id == entry.clause.id) return try_store_clause(entry, platform, options);
  Verdict verdict = failed("no such clause; store_clauses() lists them", {});
  verdict.clause.id = id;
  return verdict;
}

}  // namespace osm::inline v1::testing
