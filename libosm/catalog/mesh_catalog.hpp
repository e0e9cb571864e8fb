// MeshCataloger over the newest MeshSnapshot. Every answer comes from one snapshot.
#pragma once

#include <memory>

#include "base/snapshot_cell.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::catalog {

// Lifetime: everything borrowed outlives the catalog.
struct MeshCatalogOptions {
  MeshSpec& spec;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  const Clock& clock;  // certificates that expired unclaimed are no longer listed
};

std::unique_ptr<MeshCataloger> make_mesh_catalog(const MeshCatalogOptions& options);

}  // namespace osm::inline v1::catalog
