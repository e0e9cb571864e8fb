// Meshes of proxies that refuse objects: one for each different set of refused objects, shared by
// the proxies that refuse these. Their number is limited, because each costs the memory and the
// work of a mesh. Thread: one strand.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ads/trial.hpp"
#include "nack_provenance/mesh_variant.hpp"

namespace osm::inline v1::nack_provenance {

class OwnMeshes {
 public:
  // First come, first served: a proxy for which there is no mesh keeps the mesh of all, and what it
  // accepted of it.
  static constexpr std::size_t kMost = 64;

  // Lifetime: the host outlives the value.
  OwnMeshes(MeshInputs inputs, ads::TrialHost& host) : inputs_(std::move(inputs)), host_(host) {}

  // The newest mesh of all proxies, which is never null. All meshes become those of it.
  void follow(const Snapshot& newest);
  // Builds those again that a provider failed for.
  void retry();

  // The newest mesh for a proxy that refuses these objects: without those that may be left out, and
  // with the resources frozen that contain others of them. Its `mesh` is null if it is not known.
  // Precondition: follow() was called.
  ads::ProxyMesh without(const ObjectSet& objects);
  // No trial is expected: releases the memory that they need.
  void end_trials() { trial_.reset(); }

  // Gives the proxy the mesh for these objects; for none the mesh of all. Result: false if there is
  // no room for another mesh, or it is not known: then the proxy has the mesh of all.
  bool assign(const model::ProxyKey& proxy, const ObjectSet& objects);
  bool has_own(const model::ProxyKey& proxy) { return of(proxy) != own_.end(); }

 private:
  struct Builders {
    explicit Builders(const MeshInputs& inputs) : whole(inputs), reduced(inputs) {}

    void follow(const Snapshot& newest) {
      whole.follow(newest);
      reduced.follow(newest);
    }
    ads::ProxyMesh without(const ObjectSet& objects);

    MeshVariant whole;
    MeshVariant reduced;  // without what is frozen
  };
  struct Own {
    Own(ads::MeshNumber n, const MeshInputs& inputs) : number(n), builders(inputs) {}

    const ads::MeshNumber number;
    Builders builders;
    ads::ProxyMesh newest{};
    std::set<model::ProxyKey> proxies{};
  };
  using Meshes = std::map<ObjectSet, Own>;

  bool update(Meshes::value_type& mesh);
  Meshes::iterator of(const model::ProxyKey& proxy);

  const MeshInputs inputs_;
  ads::TrialHost& host_;
  Snapshot newest_;
  std::optional<Builders> trial_;
  Meshes own_;
  ads::MeshNumber last_ = ads::kMeshOfAll;
};

}  // namespace osm::inline v1::nack_provenance
