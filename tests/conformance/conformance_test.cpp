// Every provider of this project passes every clause.
#include <doctest/doctest.h>

#include <chrono>

#include "kubernetes_platform.hpp"
#include "memory_platform.hpp"
#include "vm_platforms.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

void passes(const PlatformFactory& platform, std::size_t not_applicable = 0) {
  const auto begun = std::chrono::steady_clock::now();
  const ConformanceReport report = check_provider(platform);
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

}  // namespace

TEST_SUITE("check_provider") {
  TEST_CASE("the memory provider passes") {
    passes([] { return std::make_unique<MemoryPlatform>(); });
  }

  TEST_CASE("the VM provider passes over a store in memory") { passes(make_vm_platform); }

  TEST_CASE("the VM provider passes over a directory") { passes(make_directory_platform); }

  TEST_CASE("the provider of pods passes over a store in memory") { passes(make_pods_platform); }
}
