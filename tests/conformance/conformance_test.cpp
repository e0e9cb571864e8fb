// Every provider of this project passes every clause.
#include <doctest/doctest.h>

#include "conformance_run.hpp"
#include "kubernetes_platform.hpp"
#include "memory_platform.hpp"
#include "resource_platform.hpp"
#include "vm_platforms.hpp"

using namespace osm;
using namespace osm::testing;

// Not applicable to a platform of the suite that shows no workloads.
static constexpr std::size_t kClausesOfWorkloads = 11;

TEST_SUITE("check_provider") {
  TEST_CASE("the memory provider passes") {
    passes([] { return std::make_unique<MemoryPlatform>(); });
  }

  TEST_CASE("the VM provider passes over a store in memory") { passes(make_vm_platform); }

  TEST_CASE("the VM provider passes over a directory") {
    passes(make_directory_platform, kClausesOfWorkloads);
  }

  TEST_CASE("the DNS provider passes over a resolver in memory") {
    passes(make_dns_platform, kClausesOfWorkloads);
  }

  TEST_CASE("the provider of pods passes over a store in memory") {
    passes(make_pods_platform, kClausesOfWorkloads);
  }
}
