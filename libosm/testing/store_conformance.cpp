#include "osm/testing/store_conformance.hpp"

#include <utility>

#include "testing/store_bench.hpp"

namespace osm::inline v1::testing {
namespace {

std::vector<StoreClause> all_store_clauses() {
  std::vector<StoreClause> all = store_list_clauses();
  for (StoreClause& clause : store_outage_clauses()) all.push_back(std::move(clause));
  return all;
}

Suite<StoreBench> store_suite(const StorePlatformFactory& platform,
                              const StoreConformanceOptions& options) {
  return {"store", "store_clauses()", all_store_clauses(), options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<StoreBench>(platform, options, on_step);
          }};
}

}  // namespace

std::vector<ConformanceClause> store_clauses() { return listed(all_store_clauses()); }

ConformanceReport check_store(const StorePlatformFactory& platform,
                              const StoreConformanceOptions& options) {
  return store_suite(platform, options).run_all();
}

ConformanceResult check_store_clause(std::string_view id, const StorePlatformFactory& platform,
                                     const StoreConformanceOptions& options) {
  return store_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
