// Meshes of proxies that refuse objects: one for each different set of refused objects, shared by
// the proxies that refuse these. Their number is limited, because each costs the memory and the
// work of a mesh. Thread: one strand.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "ads/trial.hpp"
#include "nack_provenance/mesh_variant.hpp"

namespace osm::inline v1::nack_provenance {

// The objects that a proxy refuses.
struct RefusedObjects {
  ObjectSet left_out;
  ObjectSet frozen;  // resources that contain one are frozen, see translate::EncodedResource

  bool empty() const { return left_out.empty() && frozen.empty(); }
  friend auto operator<=>(const RefusedObjects&, const RefusedObjects&) = default;
};

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

  // The newest mesh for a trial; null: not known. Precondition: follow() was called.
  ads::MeshPtr without(const ObjectSet& objects);
  // No trial is expected: releases the memory that they need.
  void end_trials() { trial_.reset(); }

  // Gives the proxy the mesh for these objects; for none the mesh of all. Result: false if there is
  // no room for another mesh, or it is not known: then the proxy has the mesh of all.
  bool assign(const model::ProxyKey& proxy, const RefusedObjects& objects);
  bool has_own(const model::ProxyKey& proxy) const { return assigned_.contains(proxy); }

 private:
  struct Own {
    Own(ads::MeshNumber n, const MeshInputs& inputs) : number(n), mesh(inputs) {}

    const ads::MeshNumber number;
    MeshVariant mesh;
    std::optional<MeshVariant> without;  // without the frozen objects too
    ads::MeshPtr newest;
    std::size_t proxies = 0;
  };

  bool build(const RefusedObjects& objects, Own& own);

  const MeshInputs inputs_;
  ads::TrialHost& host_;
  Snapshot newest_;
  std::optional<MeshVariant> trial_;
  std::map<RefusedObjects, std::unique_ptr<Own>> own_;
  std::map<model::ProxyKey, RefusedObjects> assigned_;
  ads::MeshNumber last_ = ads::kMeshOfAll;
};

}  // namespace osm::inline v1::nack_provenance
