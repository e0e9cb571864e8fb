// Traffic that bypasses a proxy: MeshConfig says it for the whole mesh, annotations for one
// workload.
#pragma once

#include "osm/inject/interception.hpp"
#include "osm/values/mesh_config.hpp"
#include "spec/fields.hpp"

namespace osm::inline v1::inject {

// Adds those of the mesh, which were checked when the MeshConfig was read.
void add_exclusions(const TrafficExclusions& mesh, InterceptionOptions& options);

// Adds those of the annotations of a pod or a machine. A fault is refused in its annotation.
void add_exclusions(const spec::Field& annotations, InterceptionOptions& options);

}  // namespace osm::inline v1::inject
