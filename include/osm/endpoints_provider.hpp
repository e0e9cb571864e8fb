// Endpoints of services on one platform. A provider knows its platform and how a service name
// resolves there. It does not know SMI, proxies or sidecars. Providers do not throw.
// docs/provider-guide.md explains all clauses of the contract.
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

  // True once the first complete list has been read. Stays true if the platform becomes unreachable
  // later. Thread: any. Blocking: no.
  virtual bool has_synced() const = 0;

  // True while the platform is reachable. Otherwise the listed endpoints may be stale.
  // Thread: any. Blocking: no.
  virtual bool healthy() const = 0;

  // Result: the service's endpoints in any order; empty: the provider knows the service and it has
  // no endpoints; nullopt: the provider does not know the service.
  // Failure: none; if the platform is unreachable, the provider keeps its last endpoints and
  // healthy() is false.
  // Thread: any. Blocking: no (reads the provider's memory).
  virtual std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const = 0;

  // True if workloads outside of the mesh serve the service; list_endpoints_for_service() leaves
  // them out. Without them a service without endpoints counts as scaled to zero: its clients get
  // 503, and egress does not take their requests past the mesh. A change is announced like one of
  // endpoints. Thread: any. Blocking: no.
  virtual bool served_outside(const ServiceName& /*service*/) const { return false; }

  // Addresses of everybody behind the service, with or without a sidecar, in any order: the callers
  // that an IngressBackend with this source admits. Also of a service outside of the mesh's
  // namespaces. Empty: the provider knows none, so nobody is admitted. A change is announced like
  // one of endpoints. Thread: any. Blocking: no.
  virtual std::vector<std::string> list_source_addresses(const ServiceName& /*service*/) const {
    return {};
  }

  // Calls `on_change` with the services that changed; their new endpoints can be read by then. An
  // empty list: has_synced() or healthy() changed. Duplicates and any order are harmless. The
  // provider holds no lock meanwhile.
  // Thread: the provider's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) = 0;
};

// A provider as a part of a mesh.
struct ProviderEntry {
  EndpointsProvider* provider = nullptr;  // never null; outlives the mesh
  bool required = true;                   // nothing is served before it has synced
};

// State of a provider, as the mesh sees it.
struct ProviderStatus {
  std::string id;
  bool required = true;
  bool synced = false;  // once true, stays true
  bool stale = false;   // unreachable; the mesh keeps its last endpoints
  std::string failure;  // its last exception; empty after it answers again

  friend bool operator==(const ProviderStatus&, const ProviderStatus&) = default;
};

// The workloads of one platform and the UUIDs of their proxies. A platform that runs sidecars
// implements it beside its EndpointsProvider.
class OSM_API WorkloadProvider {
 public:
  virtual ~WorkloadProvider() = default;

  // True once the first complete list has been read; the mesh serves nothing before. A provider
  // that is also an EndpointsProvider may leave this to its has_synced(). Thread: any. Blocking:
  // no.
  virtual bool workloads_synced() const { return true; }

  // Every workload of the platform, ordered by name. Thread: any. Blocking: no.
  virtual std::vector<Workload> list_workloads() const = 0;

  // The workload of that name; nullopt: none. The mesh asks for each changed workload, so that the
  // cost of a change does not depend on the number of workloads. Thread: any. Blocking: no.
  virtual std::optional<Workload> find_workload(const WorkloadName& name) const = 0;

  // Workloads that were left out, with reasons, ordered. Thread: any. Blocking: no.
  virtual std::vector<Problem> list_problems() const = 0;

  // Calls `on_change` with the names of workloads that were added, changed or removed. An empty
  // list: only list_problems() changed.
  // Thread: the provider's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1
