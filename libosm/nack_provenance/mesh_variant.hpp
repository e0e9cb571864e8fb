// The newest mesh without some objects. It follows the mesh of all proxies: the same endpoints,
// workloads and other objects.
// Thread: one strand.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "ads/trial.hpp"
#include "catalog/mesh_builder.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::nack_provenance {

using Snapshot = std::shared_ptr<const model::MeshSnapshot>;
using ObjectSet = std::set<ObjectKey>;

// Lifetime: the providers outlive the meshes.
struct MeshInputs {
  std::vector<ProviderEntry> providers;
  std::vector<WorkloadProvider*> workload_providers;
  std::function<TrustDomains()> trust_domains;  // in effect now
};

class MeshVariant {
 public:
  explicit MeshVariant(const MeshInputs& inputs);
  ~MeshVariant();

  // The newest mesh of all proxies; each one is told, or those in between count as changed.
  void follow(const Snapshot& newest);

  // The newest mesh without these objects; `changes` are those since the last call. Instead of a
  // MeshConfig its defaults are in effect. Null: not known. Precondition: follow() was called.
  ads::MeshPtr without(const ObjectSet& objects);

  // True if a provider threw, so that the next call of without() may have another result.
  bool has_failures() const { return builder_.has_failures(); }

 private:
  class Spec;
  class Filter;

  const MeshInputs& inputs_;
  TrustDomains domains_;
  Snapshot newest_;
  std::unique_ptr<Spec> spec_;
  std::unique_ptr<Filter> filter_;
  catalog::MeshBuilder builder_;
  ads::MeshPtr last_;
};

}  // namespace osm::inline v1::nack_provenance
