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
#include "osm/spec/published_spec.hpp"

namespace osm::inline v1::testing {

class OSM_API MemoryMeshSpec final : public spec::PublishedSpec {
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

  std::optional<ObjectSource> source_of(const ObjectKey& key) const override;

 private:
  struct State;
  template <class Edit>
  void change(Edit edit);
  template <class T>
  void put_into(Table<T> SpecSnapshot::*table, const T& object, const std::string& ns = {});
  std::unique_ptr<State> state_;
};

}  // namespace osm::inline v1::testing
