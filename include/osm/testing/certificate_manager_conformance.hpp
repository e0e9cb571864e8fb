// Conformance suite for certificate::Managers. This project's manager passes it, and so does its
// fake, but for renewals. docs/provider-guide.md explains each clause.
//
// A manager's author writes a CertificateManagerPlatform: a test's access to the CA and the time
// behind the manager. The suite needs no test framework:
//
//   const auto report = osm::testing::check_certificate_manager([] {
//     return std::make_unique<MyPlatform>(); });
//   std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// Capabilities of a manager and its CA. Clauses about a missing capability are not applicable.
struct CertificateManagerTraits {
  bool outages = true;  // the CA can be unreachable
  bool changes = true;  // the CA can be replaced while the manager runs
  bool renews = true;   // the manager renews by itself; false: a fake
  bool checks = true;   // it refuses requests of other subjects; false: a fake
};

// A manager with its CA, which can be reached and signs for the trust domain "cluster.local".
//
// For every call but clock(): Thread: one at a time, not always the same. Blocking: as the CA's own
// tools do.
class OSM_API CertificateManagerPlatform {
 public:
  virtual ~CertificateManagerPlatform() = default;

  // Capabilities of this manager. Default: all.
  virtual CertificateManagerTraits traits() const { return {}; }

  // The manager under test, with nothing cached. Called once; the suite destroys it before the
  // platform.
  virtual std::unique_ptr<certificate::Manager> start() = 0;

  // The clock of the manager.
  virtual const Clock& clock() const = 0;
  // Lets so much time pass for the manager, and its work be done.
  virtual void pass(std::chrono::seconds time) = 0;

  // While false, the CA cannot be reached. Called only if traits().outages is true.
  virtual void set_reachable(bool /*reachable*/) {}
  // Puts another CA in place of the one that signs. Called only if traits().changes is true.
  virtual void change_ca() {}
};

using CertificateManagerPlatformFactory =
    std::function<std::unique_ptr<CertificateManagerPlatform>()>;

// Deadlines and effort of the suite.
struct CertificateManagerConformanceOptions {
  // Time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
  int callers = 8;  // threads that ask for one name at once
};

// Every clause, in the best order to read and to repair. Its ids never change.
OSM_API std::vector<ConformanceClause> certificate_manager_clauses();

// Checks all clauses. It stops at the first one if no certificate can be issued.
// Failure: none; exceptions and hangs of the manager are in the report.
// Thread: any; the suite starts threads. Blocking: until done; the options' deadlines bound the
// time.
OSM_API ConformanceReport
check_certificate_manager(const CertificateManagerPlatformFactory& platform,
                          const CertificateManagerConformanceOptions& options = {});

// Checks one clause. An unknown id fails.
OSM_API ConformanceResult check_certificate_manager_clause(
    std::string_view id, const CertificateManagerPlatformFactory& platform,
    const CertificateManagerConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
