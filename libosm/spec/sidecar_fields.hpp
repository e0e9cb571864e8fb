// Decodes the parts of a MeshConfig that affect sidecars. Faults are refused, the rest is read.
#pragma once

#include "osm/values/mesh_config.hpp"
#include "spec/fields.hpp"

namespace osm::inline v1::spec {

SidecarConfig sidecar_of(const Field& sidecar);         // spec.sidecar
TlsSettings tls_settings_of(const Field& sidecar);      // the TLS fields of spec.sidecar
TrafficExclusions exclusions_of(const Field& traffic);  // spec.traffic

}  // namespace osm::inline v1::spec
