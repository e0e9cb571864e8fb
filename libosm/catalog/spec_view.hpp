// The mesh specification as the builder last read it. Events mark objects to read again.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/spec_tables.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Differences that refresh() found.
struct SpecChanges {
  bool namespaces = false;
  bool splits = false;
  bool routes = false;
  bool accounts = false;  // ServiceAccount objects, which the view does not hold
  std::set<ServiceName> services;
  std::set<smi::ObjectName> targets;
  std::map<ObjectKey, bool> objects;  // all of the above and every other kind; false: removed
};

class SpecView {
 public:
  // `spec` outlives the view.
  explicit SpecView(const MeshSpec& spec) : spec_(spec) {}

  // Marks these objects to be read again. Only they are compared.
  void invalidate(const std::vector<ObjectKey>& changed);

  // Marks those of these Services that differ from the ones held.
  void invalidate_changed(const std::set<ServiceName>& services);

  // Reads all marked objects; the first time, all objects.
  SpecChanges refresh();

  const MeshSpec& spec() const { return spec_; }
  const SpecSnapshot& objects() const { return objects_; }
  const std::set<std::string>& namespaces() const { return namespaces_; }
  // The service; null if there is none.
  std::shared_ptr<const Service> find_service(const ServiceName& name) const {
    return objects_.services.find(name);
  }

 private:
  void refresh_config(std::map<ObjectKey, bool>& changed);
  bool refresh_namespaces(std::map<ObjectKey, bool>& changed);

  const MeshSpec& spec_;
  bool everything_ = true;
  std::set<ObjectKey> stale_;
  ObjectKey config_key_ = model::mesh_config_key();  // key in the last event
  SpecSnapshot objects_;
  std::set<std::string> namespaces_;
};

}  // namespace osm::inline v1::catalog
