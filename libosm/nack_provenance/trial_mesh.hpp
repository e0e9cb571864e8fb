// The mesh as it would be if some objects had not changed; trials send it to the refusing proxy.
// Thread: one strand.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "catalog/mesh_builder.hpp"
#include "model/mesh_snapshot.hpp"
#include "model/spec_objects.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::nack_provenance {

class TrialMesh {
 public:
  using SnapshotPtr = std::shared_ptr<const model::MeshSnapshot>;

  // Lifetime: the providers outlive the value. Endpoints and workloads stay those of the first
  // trial.
  struct Options {
    model::SpecObjects before;  // reduced by still_allowed()
    model::SpecObjects after;
    std::vector<ProviderEntry> providers;
    std::vector<WorkloadProvider*> workload_providers;
    TrustDomains trust_domain;
  };
  explicit TrialMesh(Options options);
  ~TrialMesh();

  // The mesh of `after`, with the objects named by `old` as in `before`. Null: a provider has not
  // synced.
  SnapshotPtr with_old(const std::set<ObjectKey>& old);
  // The mesh of `after` without this object. A MeshConfig is replaced by the one of `before`.
  SnapshotPtr without(const ObjectKey& object);

 private:
  class Spec;
  SnapshotPtr build(model::SpecObjects objects);

  model::SpecObjects before_;
  model::SpecObjects after_;
  std::unique_ptr<Spec> spec_;
  catalog::MeshBuilder builder_;
  SnapshotPtr last_;
};

}  // namespace osm::inline v1::nack_provenance
