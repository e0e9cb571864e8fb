// Target state of the mesh: SMI and OSM policy, services and accounts, decoded and validated. A
// MeshSpec hides where objects are stored. It knows nothing of Envoy, of endpoints' addresses or of
// clouds. It has only valid objects of monitored namespaces; list_problems() has the rest.
//
// For all calls but subscribe(): Thread: any. Blocking: no (they read memory). Failure: none.
// Results are shared and immutable; an unchanged object keeps its pointer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/subscription.hpp"
#include "osm/values/spec_snapshot.hpp"

namespace osm::inline v1 {

// A host implements four functions, or derives from spec::PublishedSpec. The others read
// snapshot(); their lists are ordered by namespace and name.
class OSM_API MeshSpec {
 public:
  virtual ~MeshSpec() = default;

  // The state now. Never null. Hold the pointer while you read what it points to.
  virtual std::shared_ptr<const SpecSnapshot> snapshot() const = 0;

  // Everything that was left out or not understood, and every reference to a missing object,
  // ordered. Only the MeshSpec reports these. At least as new as a snapshot() that was read before.
  virtual std::vector<Problem> list_problems() const = 0;

  // Place of an object now, in the mesh or not, for people who look for the cause of a problem. The
  // path is empty if its store knows no places. nullopt: there is no such object.
  virtual std::optional<ObjectSource> source_of(const ObjectKey&) const { return std::nullopt; }

  // Calls `on_change` after each change. A snapshot() in the call is this state or a newer one.
  // Thread: the store's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(std::function<void(const SpecChange& change)> on_change) = 0;

  // All objects of one kind.
  SharedList<smi::TrafficSplit> list_traffic_splits() const { return snapshot()->splits.list(); }
  SharedList<smi::HttpRouteGroup> list_http_traffic_specs() const {
    return snapshot()->http_routes.list();
  }
  SharedList<smi::TcpRoute> list_tcp_traffic_specs() const { return snapshot()->tcp_routes.list(); }
  SharedList<smi::TrafficTarget> list_traffic_targets() const { return snapshot()->targets.list(); }
  SharedList<Service> list_services() const { return snapshot()->services.list(); }
  // The policies of all kinds that no other function lists, ordered by key.
  SharedList<Policy> list_policies() const { return snapshot()->policies.list(); }
  // The CAs declared in the control plane's namespace. An invalid object keeps its last valid
  // value. Empty: the controller's flags say which CA signs.
  SharedList<MeshRootCertificate> list_root_certificates() const {
    return snapshot()->roots.list();
  }
  // Accounts that TrafficTargets name. ServiceAccount objects need not exist for them.
  std::vector<ServiceAccount> list_service_accounts() const;
  // Every ServiceAccount object of the mesh.
  std::vector<ServiceAccount> list_all_service_accounts() const;

  // The service of that name; null if the mesh has none.
  std::shared_ptr<const Service> get_service(const ServiceName& name) const {
    return snapshot()->services.find(name);
  }
  // The last valid MeshConfig; defaults if there never was one.
  MeshConfig get_mesh_config() const { return *snapshot()->config; }
  // Namespaces with the monitored-by label.
  std::vector<std::string> list_namespaces() const { return snapshot()->namespaces; }
  // The control plane's own namespace; empty: no namespace is special.
  std::string control_plane_namespace() const { return snapshot()->config_key.ns; }
  // True once the first complete list of every kind has been read. The mesh serves nothing before.
  bool has_synced() const { return snapshot()->synced; }
};

}  // namespace osm::inline v1
