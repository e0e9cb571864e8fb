// The mesh specification as the builder last read it. Events mark kinds to read again.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/spec_objects.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Differences that refresh() found.
struct SpecChanges {
  bool config = false;
  bool namespaces = false;
  bool splits = false;
  bool routes = false;
  std::set<ServiceName> services;
  std::set<smi::ObjectName> targets;
  std::map<ObjectKey, bool> objects;  // all of the above, by key; false: removed
};

class SpecView {
 public:
  // `spec` outlives the view.
  explicit SpecView(const MeshSpec& spec) : spec_(spec) {}

  // Marks the kinds of `changed` to be read again. Kinds that do not affect the mesh are ignored.
  void invalidate(const std::vector<ObjectKey>& changed);

  // Reads all marked kinds; the first time, all kinds.
  SpecChanges refresh();

  const MeshSpec& spec() const { return spec_; }
  const MeshConfig& config() const { return config_; }
  const std::set<std::string>& namespaces() const { return namespaces_; }
  const SharedList<Service>& services() const { return services_; }
  // The service; null if there is none.
  std::shared_ptr<const Service> find_service(const ServiceName& name) const {
    const auto at = services_by_name_.find(name);
    return at == services_by_name_.end() ? nullptr : at->second;
  }
  const SharedList<smi::TrafficSplit>& splits() const { return splits_; }
  const SharedList<smi::HttpRouteGroup>& http_routes() const { return http_routes_; }
  const SharedList<smi::TcpRoute>& tcp_routes() const { return tcp_routes_; }
  const SharedList<smi::TrafficTarget>& targets() const { return targets_; }
  model::SpecObjects objects() const {
    return {config_,     {namespaces_.begin(), namespaces_.end()},
            services_,   targets_,
            splits_,     tcp_routes_,
            http_routes_};
  }

 private:
  const MeshSpec& spec_;
  bool everything_ = true;
  std::set<std::string> kinds_;
  ObjectKey config_key_{"MeshConfig", {}, {}};  // key in the last event

  MeshConfig config_;
  std::set<std::string> namespaces_;
  SharedList<Service> services_;
  std::map<ServiceName, std::shared_ptr<const Service>> services_by_name_;
  SharedList<smi::TrafficSplit> splits_;
  SharedList<smi::HttpRouteGroup> http_routes_;
  SharedList<smi::TcpRoute> tcp_routes_;
  SharedList<smi::TrafficTarget> targets_;
};

}  // namespace osm::inline v1::catalog
