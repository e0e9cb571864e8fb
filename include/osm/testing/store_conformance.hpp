// Conformance suite for ObjectStores. The stores of this project (a directory, Kubernetes, etcd)
// pass it. docs/provider-guide.md explains each clause.
//
// A store's author writes a StorePlatform: a test's access to the source behind the store. The
// suite starts the store on fresh platforms, changes them and watches the store. It needs no test
// framework:
//
//   const auto report = osm::testing::check_store([] { return std::make_unique<MyPlatform>(); });
//   std::puts(report.text().c_str()); return report.passed() ? 0 : 1;
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/testing/provider_conformance.hpp"

namespace osm::inline v1::testing {

// Capabilities of a source. Clauses about a missing capability are not applicable.
struct StoreTraits {
  bool outages = true;  // the source can be unreachable
  bool broken = true;   // the source can hold a text that is no object
};

// A source with one store on it. It begins reachable and empty, without the store.
//
// For every call: Thread: one at a time, not always the same. Blocking: as the source's own tools
// do. The store may see a change at once or later; the suite waits.
class OSM_API StorePlatform {
 public:
  virtual ~StorePlatform() = default;

  // Capabilities of this source. Default: all.
  virtual StoreTraits traits() const { return {}; }

  // Starts the store under test, of all kinds of spec::mesh_kinds(). Called once; the suite
  // destroys the store before the platform. `runtime` outlives the store. The suite runs both
  // executors on one thread at a time; their timers follow the suite's clock.
  virtual std::unique_ptr<ObjectStore> start(const Runtime& runtime) = 0;

  // Writes the object, in place of what is there. The suite uses valid HTTPRouteGroups and Services
  // only. Of the object it gives the key, api_version and document.
  virtual void put(const Object& object) = 0;
  // Writes a text that cannot be parsed in place of the object. Called only if traits().broken.
  virtual void put_broken(const ObjectKey& key) = 0;
  // Removes the object.
  virtual void remove(const ObjectKey& key) = 0;

  // While false, the store cannot read the source, which goes on changing. Called only if
  // traits().outages is true.
  virtual void set_reachable(bool reachable) = 0;

  // Delivers pending changes, on platforms that need a call for it. The suite calls it repeatedly
  // while it waits.
  virtual void pump() {}
};

using StorePlatformFactory = std::function<std::unique_ptr<StorePlatform>()>;

// Deadlines of the suite.
struct StoreConformanceOptions {
  // Time until a change of the source must be visible through the store, in real time.
  std::chrono::milliseconds deadline{5000};
  // Time after which a clause counts as hung. Its thread is abandoned.
  std::chrono::milliseconds clause_deadline{30000};
  // Limit for a call that must not block.
  std::chrono::milliseconds call_limit{2000};
};

// Every clause, in the best order to read and to repair. Its ids never change.
OSM_API std::vector<ConformanceClause> store_clauses();

// Checks all clauses. It stops at the first one if the store never syncs.
// Failure: none; exceptions and hangs of the store are in the report.
// Thread: any; the suite starts threads. Blocking: until done; the options' deadlines bound the
// time (some seconds).
OSM_API ConformanceReport check_store(const StorePlatformFactory& platform,
                                      const StoreConformanceOptions& options = {});

// Checks one clause. An unknown id fails.
OSM_API ConformanceResult check_store_clause(std::string_view id,
                                             const StorePlatformFactory& platform,
                                             const StoreConformanceOptions& options = {});

}  // namespace osm::inline v1::testing
