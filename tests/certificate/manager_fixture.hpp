// A manager on a manual clock and executor over a fake CA.
#pragma once

#include <memory>

#include "certificate/fake_issuer.hpp"
#include "lib/run.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::certificate::testing {

struct ManagerFixture {
  ManagerFixture() {
    manager = make_manager({.issuer = std::make_unique<FakeIssuer>(ca),
                            .runtime = runtime,
                            .key_parameters = [this] { return key; }});
    executor.run_until_idle();
  }

  CertificatePtr issue(const std::string& name, std::chrono::seconds validity = kTwoDays) {
    auto issued = manager->issue_certificate(workload(name), validity);
    REQUIRE(issued.ok());
    return *issued;
  }
  CertificatePtr only() const {
    const auto list = manager->list_certificates();
    REQUIRE(list.size() == 1);
    return list.front();
  }
  bool valid(const Certificate& certificate) const {
    return certificate.not_before <= clock.wall_now() && clock.wall_now() < certificate.not_after;
  }

  static constexpr std::chrono::seconds kTwoDays = std::chrono::hours(48);

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{osm::testing::seed()};
  Runtime runtime{executor, executor, clock, rng, log, metrics};
  FakeCa ca{clock};
  KeyParameters key;
  std::unique_ptr<Manager> manager;
};

}  // namespace osm::certificate::testing
