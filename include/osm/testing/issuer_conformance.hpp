// Conformance suite for certificate::Issuers. The issuers of this project (its own CA, Vault,
// cert-manager) pass it. docs/provider-guide.md explains each clause.
//
// An issuer's author writes an IssuerPlatform: a test's access to the CA behind the issuer. The
// suite makes keys and requests, and checks each answer as the manager does. It needs no test
// framework:
//
//   const auto report = osm::testing::check_issuer([] { return std::make_unique<MyPlatform>(); });
//   std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "osm/certificate/issuer.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// Capabilities of a CA. Clauses about a missing capability are not applicable.
struct IssuerTraits {
  bool outages = true;  // the CA can be unreachable
  bool changes = true;  // the CA can be replaced while the issuer runs
};

// A CA, which can be reached and signs for the trust domain "cluster.local".
//
// For every call but clock(): Thread: one at a time, not always the same. Blocking: as the CA's own
// tools do.
class OSM_API IssuerPlatform {
 public:
  virtual ~IssuerPlatform() = default;

  // Capabilities of this CA. Default: all.
  virtual IssuerTraits traits() const { return {}; }

  // An issuer over the CA, as of one more replica. The suite destroys it before the platform.
  virtual std::unique_ptr<certificate::Issuer> open() = 0;

  // The clock of the CA and its issuers.
  virtual const Clock& clock() const = 0;
  // Lets time pass for the issuers, or waits for so long.
  virtual void pass(std::chrono::seconds time) = 0;

  // Tells the CA, before a request for it comes, that this subject may have certificates.
  virtual void expect(const certificate::Subject& /*subject*/) {}

  // While false, no issuer can reach the CA. Called only if traits().outages is true.
  virtual void set_reachable(bool /*reachable*/) {}
  // Replaces the CA's certificate, which is told or found by a request within some minutes. Called
  // only if traits().changes is true.
  virtual void change_ca() {}
};

using IssuerPlatformFactory = std::function<std::unique_ptr<IssuerPlatform>()>;

// Deadlines and effort of the suite.
struct IssuerConformanceOptions {
  // Time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
  // Limit for a call that must not block.
  std::chrono::milliseconds call_limit{2000};
  int signers = 8;  // threads that ask at once
};

// Every clause, in the best order to read and to repair. Its ids never change.
OSM_API std::vector<ConformanceClause> issuer_clauses();

// Checks all clauses. It stops at the first one if the issuer signs nothing that holds.
// Failure: none; exceptions and hangs of the issuer are in the report.
// Thread: any; the suite starts threads. Blocking: until done; the options' deadlines bound the
// time.
OSM_API ConformanceReport check_issuer(const IssuerPlatformFactory& platform,
                                       const IssuerConformanceOptions& options = {});

// Checks one clause. An unknown id fails.
OSM_API ConformanceResult check_issuer_clause(std::string_view id,
                                              const IssuerPlatformFactory& platform,
                                              const IssuerConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
