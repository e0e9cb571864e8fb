// Certificates come and go without leaving memory, names or keys.
#include <doctest/doctest.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include "certificate/freed_blocks.hpp"
#include "certificate/local_issuer.hpp"
#include "lib/run.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

// A sanitizer makes memory grow by itself, and tells of leaks in its own way.
#ifdef OSM_SANITIZED
constexpr bool kMeasurable = false;
#else
constexpr bool kMeasurable = true;
#endif
const int kCycles = osm::testing::steps(500, 100'000);
const int kWarmUp = kCycles / 50;
constexpr int kNames = 1000;
// Pages that the allocator keeps: a leak of eleven bytes in a cycle is more.
constexpr long kMostGrowth = 1024 * 1024;

// The first 36 bytes of every P-256 key in PKCS#8, up to its secret number: whole groups of
// base64.
constexpr std::string_view kKeysBegin = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg";

// Sinks that keep nothing.
struct NoLog final : LogSink {
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view, std::span<const LogField>) override {}
};
struct NoMetrics final : MetricsSink {
  void record(const MetricDescriptor&, MetricLabels, double) override {}
};

// Free memory is handed back first, so that what is counted is what is held.
long resident_bytes() {
  ::malloc_trim(0);
  std::ifstream statm("/proc/self/statm");
  long total = 0;
  long resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

struct Mesh {
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  NoLog log;
  NoMetrics metrics;
  RandomRng rng{osm::testing::seed()};
  std::unique_ptr<Manager> manager =
      make_manager({.issuer = make_local_issuer(make_root_pem(clock).value().pem(),
                                                TrustDomain("cluster.local"), clock)
                                  .value(),
                    .runtime = {executor, executor, clock, rng, log, metrics}});

  // Result: how many keys began otherwise.
  int cycle(int times) {
    int others = 0;
    for (int i = 0; i < times; ++i) {
      const std::string name = "w" + std::to_string(i % kNames);
      const Subject subject{CommonName(name + ".shop.cluster.local"),
                            SpiffeId("spiffe://cluster.local/ns/shop/sa/" + name)};
      const auto issued = manager->issue_certificate(subject, std::chrono::hours(48));
      REQUIRE(issued.ok());
      others += (*issued)->private_key.pem().find(kKeysBegin) == std::string::npos;
      manager->release_certificate(subject.common_name);
      executor.run_until_idle();
    }
    return others;
  }
};

}  // namespace

TEST_SUITE("certificate::Manager over many cycles") {
  TEST_CASE("certificates come and go: no memory, no name, no key stays") {
    Mesh mesh;
    REQUIRE(mesh.cycle(kWarmUp) == 0);
    const long before = resident_bytes();
    const certificate::testing::Watch watch(kKeysBegin);
    REQUIRE(mesh.cycle(kCycles) == 0);
    const long growth = resident_bytes() - before;
    MESSAGE("resident memory grew by " << growth / 1024 << " kB over " << kCycles << " cycles");
    CHECK(watch.leaked() == 0);
    CHECK(mesh.manager->list_certificates().empty());
    CHECK(mesh.executor.timers() == 1);
    if (kMeasurable && osm::testing::long_run()) CHECK(growth <= kMostGrowth);
  }
}
