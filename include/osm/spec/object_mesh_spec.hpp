// MeshSpec over any ObjectStore: decodes and validates objects, resolves references and publishes
// immutable views of the mesh's target state.
#pragma once

#include <memory>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::spec {

inline constexpr const char* kMonitoredByLabel = "openservicemesh.io/monitored-by";
inline constexpr const char* kMeshConfigName = "osm-mesh-config";

// Selects the objects of a store that form the mesh.
struct MeshSpecOptions {
  ObjectStore& store;                        // outlives the MeshSpec, as do the sinks
  std::string mesh_name = "osm";             // namespaces labelled with it form the mesh
  std::string osm_namespace = "osm-system";  // namespace of the MeshConfig
  LogSink& log;
  MetricsSink& metrics;
  Kinds kinds = mesh_kinds();
};

// Reads the store's present objects at once. Failure: none; see has_synced() and list_problems().
// Thread: subscribers are called in the store's thread.
OSM_API std::unique_ptr<MeshSpec> make_mesh_spec(const MeshSpecOptions& options);

}  // namespace osm::inline v1::spec
