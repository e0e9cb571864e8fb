#include "nack_provenance/own_meshes.hpp"

#include <utility>

namespace osm::inline v1::nack_provenance {

void OwnMeshes::follow(const Snapshot& newest) {
  newest_ = newest;
  if (trial_) trial_->follow(newest);
  for (auto& [objects, own] : own_) {
    own->mesh.follow(newest);
    if (own->without) own->without->follow(newest);
    build(objects, *own);
  }
}

void OwnMeshes::retry() {
  for (auto& [objects, own] : own_) {
    if (!own->mesh.has_failures() && !(own->without && own->without->has_failures())) continue;
    own->mesh.follow(newest_);
    if (own->without) own->without->follow(newest_);
    build(objects, *own);
  }
}

ads::MeshPtr OwnMeshes::without(const ObjectSet& objects) {
  for (const auto& [refused, own] : own_)
    if (refused.left_out == objects) return own->newest;
  if (!trial_) trial_.emplace(inputs_).follow(newest_);
  return trial_->without(objects);
}

// Result: false if the mesh is not known.
bool OwnMeshes::build(const RefusedObjects& objects, Own& own) {
  own.newest = own.mesh.without(objects.left_out);
  if (!own.newest) return false;
  ads::MeshUpdate update{
      own.number, {own.newest, nullptr}, own.newest->changes, newest_->generation, newest_->hash};
  if (!objects.frozen.empty()) {
    ObjectSet both = objects.left_out;
    both.insert(objects.frozen.begin(), objects.frozen.end());
    if (!own.without) own.without.emplace(inputs_).follow(newest_);
    update.mesh.without = own.without->without(both);
    if (!update.mesh.without) return false;
    update.changes.merge(update.mesh.without->changes);
  }
  host_.update_mesh(std::move(update));
  return true;
}

bool OwnMeshes::assign(const model::ProxyKey& proxy, const RefusedObjects& objects) {
  const auto had = assigned_.extract(proxy);
  bool given = objects.empty();
  if (!given) {
    auto at = own_.find(objects);
    if (at == own_.end() && own_.size() < kMost) {
      auto own = std::make_unique<Own>(++last_, inputs_);
      own->mesh.follow(newest_);
      if (build(objects, *own)) at = own_.emplace(objects, std::move(own)).first;
    }
    if (at != own_.end()) {
      ++at->second->proxies;
      assigned_.emplace(proxy, objects);
      host_.assign_mesh(proxy, at->second->number);
      given = true;
    }
  }
  if (!assigned_.contains(proxy) && !had.empty()) host_.assign_mesh(proxy, ads::kMeshOfAll);
  if (had.empty()) return given;
  const auto before = own_.find(had.mapped());
  if (--before->second->proxies == 0) {
    host_.drop_mesh(before->second->number);
    own_.erase(before);
  }
  return given;
}

}  // namespace osm::inline v1::nack_provenance
