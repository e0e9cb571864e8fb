// A MeshSpec in memory, for tests of its readers. It starts empty and synced, with a default
// MeshConfig. Setters notify subscribers in the caller's thread before they return; a setter that
// changes nothing does nothing. Putting an object also adds its namespace to the mesh.
//
// For all calls: Thread: any, but setters one at a time. Blocking: no, except for the subscribers'
// callbacks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryMeshSpec final : public MeshSpec {
 public:
  MemoryMeshSpec();
  ~MemoryMeshSpec() override;

  // Adds the object, or replaces the one of that name.
  void put(const Service& service);
  void put(const smi::TrafficSplit& split);
  void put(const smi::HttpRouteGroup& group);
  void put(const smi::TcpRoute& route);
  void put(const smi::TrafficTarget& target);
  void put(const Policy& policy);
  void put(const MeshRootCertificate& root);  // in the control plane's namespace
  // Adds the account, unless it exists.
  void put_service_account(const ServiceAccount& account);
  // Adds a monitored namespace.
  void put_namespace(const std::string& ns);
  // Replaces the settings.
  void set_mesh_config(const MeshConfig& config);

  // Removes an object by its kind in Kubernetes and SMI: {kinds::kTrafficTarget, "bookstore",
  // "buyer"}. A removed Namespace (by its name, without namespace) leaves the mesh; its objects
  // stay listed.
  void remove(const ObjectKey& key);

  // Set the result of has_synced() / list_problems().
  void set_synced(bool synced);
  void set_problems(std::vector<Problem> problems);
  // Sets the place of an object. It does not notify: a move is no change of the object.
  void set_source(const ObjectKey& key, ObjectSource source);

  SharedList<smi::TrafficSplit> list_traffic_splits() const override;
  SharedList<smi::HttpRouteGroup> list_http_traffic_specs() const override;
  SharedList<smi::TcpRoute> list_tcp_traffic_specs() const override;
  SharedList<smi::TrafficTarget> list_traffic_targets() const override;
  std::vector<ServiceAccount> list_service_accounts() const override;
  SharedList<Policy> list_policies() const override;
  std::string control_plane_namespace() const override;  // "osm-system"
  SharedList<Service> list_services() const override;
  std::shared_ptr<const Service> get_service(const ServiceName& name) const override;
  std::vector<ServiceAccount> list_all_service_accounts() const override;
  std::vector<std::string> list_namespaces() const override;
  MeshConfig get_mesh_config() const override;
  SharedList<MeshRootCertificate> list_root_certificates() const override;
  bool has_synced() const override;
  std::vector<Problem> list_problems() const override;
  std::optional<ObjectSource> source_of(const ObjectKey& key) const override;
  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
