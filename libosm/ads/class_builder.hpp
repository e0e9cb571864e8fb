// Computes the resource sets of one class from a snapshot: collects inputs, encodes those that the
// cache lacks, checks references. Pure except for the cache; runs on the executor's pool.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ads/resource_cache.hpp"
#include "ads/session.hpp"
#include "model/mesh_snapshot.hpp"
#include "translate/hooked.hpp"

namespace osm::inline v1::ads {

struct BuildJob {
  std::shared_ptr<const model::MeshSnapshot> snapshot;
  // Resources that differ from those of this mesh are frozen; null: none is.
  std::shared_ptr<const model::MeshSnapshot> without;
  translate::ProxyClass proxy_class;
  ResourceSets previous;   // null before the first build
  bool everything = true;  // false: only the endpoints of `services`
  std::vector<ServiceName> endpoints_of;
  const ResourceHook* hook = nullptr;
};

struct BuildResult {
  ResourceSets sets;               // unchanged sets are the previous ones, by pointer
  std::vector<ServiceName> reads;  // for an `everything` job
  bool failed = false;             // the hook did: there are no new sets
  // Resources that were left out because they contradict others, and errors of the hook.
  std::vector<std::string> faults;
};

BuildResult build(const BuildJob& job, ResourceCache& cache);

// The resource, frozen (translate::EncodedResource).
EncodedPtr frozen(const EncodedResource& resource);

// Checks resources before they are sent: names are unique, every cluster's ClusterLoadAssignment
// and every listener's route configuration exist. It leaves out the others and names them in
// `faults`.
void leave_out_contradictions(translate::ResourcesByType& resources,
                              std::vector<std::string>& faults);

}  // namespace osm::inline v1::ads
