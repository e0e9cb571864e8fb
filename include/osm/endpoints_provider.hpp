// Where workloads are, on one platform. A provider knows its platform and how a service name
// resolves there, not SMI, proxies or sidecars. Nothing throws. All clauses: docs/provider-guide.md
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/subscription.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1 {

class OSM_API EndpointsProvider {
 public:
  virtual ~EndpointsProvider() = default;

  // A short constant DNS label: "vm", "kubernetes". Thread: any. Blocking: no.
  virtual std::string id() const = 0;

  // Whether the first complete list has been read. Stays true when the platform goes away later.
  // Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;

  // Whether the platform is reachable now; what is listed may be stale when not.
  // Thread: any. Blocking: no.
  virtual bool healthy() const = 0;

  // Result: the service's endpoints, any order; empty: the service is known here and has none;
  // nullopt: this provider does not know the service.
  // Failure: none; an unreachable platform keeps its last endpoints and turns healthy() false.
  // Thread: any. Blocking: no (reads the provider's memory).
  virtual std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const = 0;

  // Calls `on_change` with the services that changed, readable by then; an empty list: has_synced()
  // or healthy() did. Duplicates and any order are harmless. No lock is held meanwhile.
  // Thread: the provider's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) = 0;
};

// A provider as a part of a mesh.
struct ProviderEntry {
  EndpointsProvider* provider = nullptr;  // never null; outlives the mesh
  bool required = true;                   // nothing is served before it has synced
};

// What the mesh makes of a provider's answers.
struct ProviderStatus {
  std::string id;
  bool required = true;
  bool synced = false;  // once true, stays true
  bool stale = false;   // unreachable: what it listed last is kept
  std::string failure;  // what it last threw; empty once it answers again

  friend bool operator==(const ProviderStatus&, const ProviderStatus&) = default;
};

// Which workloads there are, and whose proxies theirs are. Implemented beside a provider by
// platforms that run sidecars.
class OSM_API WorkloadProvider {
 public:
  virtual ~WorkloadProvider() = default;

  // Whether the first complete list has been read; nothing is served before. A provider that is
  // also an EndpointsProvider may leave this to its has_synced(). Thread: any. Blocking: no.
  virtual bool workloads_synced() const { return true; }

  // Every workload of the platform, ordered by name. Thread: any. Blocking: no.
  virtual std::vector<Workload> list_workloads() const = 0;

  // The workload of that name; nullopt: none. Asked for each that changed, so that what a change
  // costs does not depend on how many workloads there are. Thread: any. Blocking: no.
  virtual std::optional<Workload> find_workload(const WorkloadName& name) const = 0;

  // What was left out and why, ordered. Thread: any. Blocking: no.
  virtual std::vector<Problem> list_problems() const = 0;

  // Calls `on_change` with the workloads that were added, changed or removed (by name); an
  // empty list: only list_problems() did.
  // Thread: the provider's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1
