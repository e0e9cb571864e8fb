// Computes the resource sets of one class from a snapshot: gathers inputs, encodes what the cache
// does not hold, checks references. Pure but for the cache; runs on the executor's pool.
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
  translate::ProxyClass proxy_class;
  ResourceSets previous;   // nulls at first
  bool everything = true;  // else only the endpoints of:
  std::vector<ServiceName> endpoints_of;
  const ResourceHook* hook = nullptr;
};

struct BuildResult {
  ResourceSets sets;               // unchanged sets are the previous ones, by pointer
  std::vector<ServiceName> reads;  // of an `everything` job
  // Resources left out because they contradict others, or why the hook failed.
  std::vector<std::string> faults;
};

BuildResult build(const BuildJob& job, ResourceCache& cache);

// Before anything is sent: names are unique, every cluster's ClusterLoadAssignment and every
// listener's route configuration exist. What fails is left out and named in `faults`.
void leave_out_contradictions(translate::ResourcesByType& resources,
                              std::vector<std::string>& faults);

}  // namespace osm::inline v1::ads
