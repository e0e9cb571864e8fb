// Target state of the mesh: SMI and OSM policy, services and accounts, decoded and validated. A
// MeshSpec hides where objects are stored. It knows nothing of Envoy, of endpoints' addresses or of
// clouds. It lists only valid objects of monitored namespaces; list_problems() has the rest.
//
// For all list and get calls: Thread: any. Blocking: no (they read memory). Failure: none. Results
// are ordered by namespace and name, shared and immutable; an unchanged object keeps its pointer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/subscription.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/policy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"
#include "osm/values/table.hpp"

namespace osm::inline v1 {

// The SMI objects of the mesh.
class OSM_API SmiReader {
 public:
  virtual ~SmiReader() = default;

  // All objects of one kind.
  virtual SharedList<smi::TrafficSplit> list_traffic_splits() const = 0;
  virtual SharedList<smi::HttpRouteGroup> list_http_traffic_specs() const = 0;
  virtual SharedList<smi::TcpRoute> list_tcp_traffic_specs() const = 0;
  virtual SharedList<smi::TrafficTarget> list_traffic_targets() const = 0;
  // Accounts that SMI objects name. ServiceAccount objects need not exist for them.
  virtual std::vector<ServiceAccount> list_service_accounts() const = 0;
};

// The services of the mesh, the accounts they run as, and the namespaces it consists of.
class OSM_API ServiceReader {
 public:
  virtual ~ServiceReader() = default;

  // Every Service of the monitored namespaces.
  virtual SharedList<Service> list_services() const = 0;
  // The service of that name; null if the mesh has none.
  virtual std::shared_ptr<const Service> get_service(const ServiceName& name) const = 0;
  // Every ServiceAccount object of the mesh.
  virtual std::vector<ServiceAccount> list_all_service_accounts() const = 0;
  // Namespaces with the monitored-by label, ordered.
  virtual std::vector<std::string> list_namespaces() const = 0;
};

// Functions for kinds that come later have a body: an own MeshSpec compiles without them.
class OSM_API MeshSpec : public SmiReader, public ServiceReader {
 public:
  // The last valid MeshConfig; defaults if there never was one.
  virtual MeshConfig get_mesh_config() const = 0;

  // The CAs declared in the control plane's namespace, ordered by name. An invalid object keeps its
  // last valid value. Empty: the controller's flags say which CA signs.
  virtual SharedList<MeshRootCertificate> list_root_certificates() const = 0;

  // The control plane's own namespace: policies in it may concern the whole mesh. Empty: no
  // namespace is special.
  virtual std::string control_plane_namespace() const { return {}; }

  // The policies of all kinds that no other function lists, ordered by key.
  virtual SharedList<Policy> list_policies() const { return {}; }

  // True once the first complete list of every kind has been read. The mesh serves nothing before.
  virtual bool has_synced() const = 0;

  // Everything that was left out or not understood, and every reference to a missing object,
  // ordered. Only the MeshSpec reports these.
  virtual std::vector<Problem> list_problems() const = 0;

  // Place of an object now, in the mesh or not, for people who look for the cause of a problem. The
  // path is empty if its store knows no places. nullopt: there is no such object.
  // Thread: any. Blocking: no.
  virtual std::optional<ObjectSource> source_of(const ObjectKey&) const { return std::nullopt; }

  // Calls `on_change` with the keys whose decoded value changed. An empty list: only has_synced()
  // or list_problems() changed.
  // Thread: the store's, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) = 0;
};

}  // namespace osm::inline v1
