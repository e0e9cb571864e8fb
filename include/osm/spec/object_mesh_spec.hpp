// MeshSpec over any ObjectStore: decodes, validates, resolves references and publishes immutable
// views of what the mesh should be.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::spec {

inline constexpr const char* kMonitoredByLabel = "openservicemesh.io/monitored-by";
inline constexpr const char* kMeshConfigName = "osm-mesh-config";

// Which objects of a store are the mesh.
struct MeshSpecOptions {
  ObjectStore& store;                        // outlives the MeshSpec, as do the sinks
  std::string mesh_name = "osm";             // namespaces labelled with it are the mesh
  std::string osm_namespace = "osm-system";  // where the MeshConfig is
  LogSink& log;
  MetricsSink& metrics;
};

// Reads what the store has at once. Failure: none; see has_synced() and list_problems().
// Subscribers are called in the store's thread.
OSM_API std::unique_ptr<MeshSpec> make_mesh_spec(const MeshSpecOptions& options);

}  // namespace osm::inline v1::spec
