// MeshSpec over any ObjectStore: decodes and validates objects, resolves references and publishes
// immutable views of the mesh's target state.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::spec {

inline constexpr const char* kMonitoredByLabel = "openservicemesh.io/monitored-by";
// The label of a namespace whose pods get no sidecars, and its value for a namespace that has moved
// here from OSM v1.2: only OSM v1.2 ignores that one.
inline constexpr const char* kIgnoreLabel = "openservicemesh.io/ignore";
inline constexpr const char* kMovedFromOsmV1 = "moved";
inline constexpr const char* kMeshConfigName = "osm-mesh-config";
// With the value "true" on the MeshConfig: the validating webhook lets it be deleted.
inline constexpr const char* kAllowDeletionAnnotation = "openservicemesh.io/allow-deletion";

// Keeps the last valid MeshConfig in a record: while the object is gone it stays in force, after a
// restart and on every replica. docs/mesh-objects.md has the rules.
struct KeptConfigOptions {
  TextRecord& record;  // this, and all of `runtime`, outlive the MeshSpec
  Runtime runtime;     // `blocking` waits for the record
  bool writes = true;  // false: only other programs write it
};

// Selects the objects of a store that form the mesh.
struct MeshSpecOptions {
  ObjectStore& store;                        // outlives the MeshSpec, as do the sinks
  std::string mesh_name = "osm";             // namespaces labelled with it form the mesh
  std::string osm_namespace = "osm-system";  // namespace of the MeshConfig
  // Domain of the cluster's DNS: objects and requests name Services as
  // <name>.<namespace>.svc.<cluster domain>. It becomes ProxySettings::cluster_domain.
  std::string cluster_domain = "cluster.local";
  LogSink& log;
  MetricsSink& metrics;
  Kinds kinds = mesh_kinds();
  // Absent: a MeshConfig that is gone stays in force until the process ends.
  std::optional<KeptConfigOptions> kept_config{};
  // Network of the virtual addresses of Services without spec.clusterIP, as
  // check_service_network() accepts it: "240.240.0.0/12". Equal on all replicas. Empty: such
  // Services are invalid.
  std::string service_network{};
};

// Checks an IPv4 network for MeshSpecOptions::service_network: its prefix length is 8 to 24.
// Failure: kInvalidArgument, with the remedy. Thread: any. Blocking: no.
OSM_API Status check_service_network(const std::string& network);

// Reads the store's present objects at once. Without a valid MeshConfig it has synced once it has
// read the record of the last one. Failure: none; see has_synced() and list_problems().
// Thread: subscribers are called in the store's thread, or by a task of `kept_config`. Blocking:
// its destructor, until a running call of the record returns; not to be called on that executor.
OSM_API std::unique_ptr<MeshSpec> make_mesh_spec(const MeshSpecOptions& options);

}  // namespace osm::inline v1::spec
