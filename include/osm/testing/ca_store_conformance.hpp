// Conformance suite for CaStores. The stores of this project (a directory, a Secret, etcd) pass it.
// docs/provider-guide.md explains each clause.
//
// A store's author writes a CaStorePlatform: a test's access to the place behind the store. The
// suite needs no test framework:
//
//   const auto report = osm::testing::check_ca_store([] { return std::make_unique<MyPlatform>();
//   }); std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/ca_store.hpp"
#include "osm/detail/api.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// Capabilities of a place. Clauses about a missing capability are not applicable.
struct CaStoreTraits {
  bool outages = true;  // the place can be unreachable
};

// A place for one CA. It begins reachable and empty.
//
// For every call: Thread: one at a time, not always the same. Blocking: as the place's own tools
// do.
class OSM_API CaStorePlatform {
 public:
  virtual ~CaStorePlatform() = default;

  // Capabilities of this place. Default: all.
  virtual CaStoreTraits traits() const { return {}; }

  // Opens the store of the place, as one more process does. Called often; the suite destroys the
  // stores before the platform, and calls several at once.
  virtual std::unique_ptr<certificate::CaStore> open() = 0;

  // Puts `text` where the store has its CA, past the store. It is no CA, and counts as a secret.
  virtual void put_broken(const std::string& text) = 0;

  // While false, the stores cannot reach the place. Called only if traits().outages is true.
  virtual void set_reachable(bool /*reachable*/) {}
};

using CaStorePlatformFactory = std::function<std::unique_ptr<CaStorePlatform>()>;

// Deadlines and effort of the suite.
struct CaStoreConformanceOptions {
  // Time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
  int racers = 8;  // stores that race to create the CA
};

// Every clause, in the best order to read and to repair. Its ids never change.
OSM_API std::vector<ConformanceClause> ca_store_clauses();

// Checks all clauses. It stops at the first one if a CA cannot be stored.
// Failure: none; exceptions and hangs of the store are in the report.
// Thread: any; the suite starts threads. Blocking: until done; the options' deadlines bound the
// time.
OSM_API ConformanceReport check_ca_store(const CaStorePlatformFactory& platform,
                                         const CaStoreConformanceOptions& options = {});

// Checks one clause. An unknown id fails.
OSM_API ConformanceResult check_ca_store_clause(std::string_view id,
                                                const CaStorePlatformFactory& platform,
                                                const CaStoreConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
