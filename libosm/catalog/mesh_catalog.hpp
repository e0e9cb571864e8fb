// MeshCataloger over the newest MeshSnapshot. Every answer comes from one snapshot.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/snapshot_cell.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::catalog {

// Proxies as other replicas report them.
struct ProxiesElsewhere {
  std::vector<certificate::ProxyCertificate> certificates{};
  std::vector<model::ProxyKey> connected{};
};

// Lifetime: everything borrowed outlives the catalog.
struct MeshCatalogOptions {
  MeshSpec& spec;
  SnapshotCell<model::MeshSnapshot>& snapshots;
  const Clock& clock;  // certificates that expired unclaimed are no longer listed
  // Null: there are no other replicas.
  std::function<ProxiesElsewhere()> elsewhere{};
};

// The catalog of one replica.
class ReplicaCatalog : public MeshCataloger {
 public:
  // As list_proxy_certificates(), without those that only other replicas know.
  virtual std::vector<certificate::ProxyCertificate> own_proxy_certificates() const = 0;
};

std::unique_ptr<ReplicaCatalog> make_mesh_catalog(const MeshCatalogOptions& options);

}  // namespace osm::inline v1::catalog
