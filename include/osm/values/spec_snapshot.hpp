// One state of the mesh specification: its valid objects, decoded and shared. A copy costs
// pointers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/policy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"
#include "osm/values/table.hpp"

namespace osm::inline v1 {

// Immutable once it is shared. In the next state unchanged objects and tables keep their pointers.
struct SpecSnapshot {
  bool synced = false;  // the first complete list of every kind has been read
  // The MeshConfig's. Its namespace is the control plane's own: policies in it may concern the
  // whole mesh. Empty: no namespace is special. It never changes. With a namespace its name is
  // osm-mesh-config, by which status and refusals know it.
  ObjectKey config_key{kinds::kMeshConfig, {}, {}};
  // The last valid MeshConfig; defaults if there never was one. Never null.
  std::shared_ptr<const MeshConfig> config = std::make_shared<const MeshConfig>();
  std::vector<std::string> namespaces;  // namespaces of the mesh, ordered
  Table<Service> services;
  Table<ServiceAccount> accounts;  // ServiceAccount objects
  Table<smi::TrafficTarget> targets;
  Table<smi::TrafficSplit> splits;
  Table<smi::HttpRouteGroup> http_routes;
  Table<smi::TcpRoute> tcp_routes;
  Table<Policy> policies;            // of all kinds that have no other table
  Table<MeshRootCertificate> roots;  // in the control plane's namespace
};

// One change of a MeshSpec.
struct SpecChange {
  // The state after the change; never null. MeshSpec::snapshot() may be newer, and so may the state
  // of a change that was told before, if several threads or callbacks made changes.
  std::shared_ptr<const SpecSnapshot> snapshot;
  // The objects whose values differ, ordered; removed ones, Namespaces and the MeshConfig too.
  // Empty: only `synced` or the problems differ.
  std::vector<ObjectKey> keys;
  bool problems = false;  // list_problems() may differ
};

}  // namespace osm::inline v1
