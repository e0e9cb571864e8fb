#include "nack_provenance/own_meshes.hpp"

#include <algorithm>
#include <utility>

#include "nack_provenance/suspects.hpp"

namespace osm::inline v1::nack_provenance {

ads::ProxyMesh OwnMeshes::Builders::without(const ObjectSet& objects) {
  const ObjectSet left_out = that_may_be_left_out(objects);
  ads::ProxyMesh mesh{whole.without(left_out), nullptr};
  if (left_out.size() == objects.size()) return mesh;
  mesh.without = reduced.without(objects);
  return mesh.without ? mesh : ads::ProxyMesh();
}

void OwnMeshes::follow(const Snapshot& newest) {
  newest_ = newest;
  if (trial_) trial_->follow(newest);
  for (auto& mesh : own_) update(mesh);
}

void OwnMeshes::retry() {
  for (auto& mesh : own_) {
    const Builders& builders = mesh.second.builders;
    if (builders.whole.has_failures() || builders.reduced.has_failures()) update(mesh);
  }
}

ads::ProxyMesh OwnMeshes::without(const ObjectSet& objects) {
  if (const auto own = own_.find(objects); own != own_.end()) return own->second.newest;
  if (!trial_) trial_.emplace(inputs_).follow(newest_);
  return trial_->without(objects);
}

// Result: false if the mesh is not known.
bool OwnMeshes::update(Meshes::value_type& mesh) {
  auto& [objects, own] = mesh;
  own.builders.follow(newest_);
  own.newest = own.builders.without(objects);
  if (!own.newest.mesh) return false;
  ads::MeshUpdate update{own.number, own.newest, own.newest.mesh->changes, newest_->generation,
                         newest_->hash};
  if (own.newest.without) update.changes.merge(own.newest.without->changes);
  host_.update_mesh(std::move(update));
  return true;
}

OwnMeshes::Meshes::iterator OwnMeshes::of(const model::ProxyKey& proxy) {
  return std::ranges::find_if(
      own_, [&](const auto& mesh) { return mesh.second.proxies.contains(proxy); });
}

bool OwnMeshes::assign(const model::ProxyKey& proxy, const ObjectSet& objects) {
  const auto before = of(proxy);
  auto own = own_.find(objects);
  if (own == own_.end() && !objects.empty() && own_.size() < kMost) {
    own = own_.try_emplace(objects, ++last_, inputs_).first;
    if (!update(*own)) {
      own_.erase(own);
      own = own_.end();
    }
  }
  const bool given = own != own_.end();
  if (given) own->second.proxies.insert(proxy);
  if (own != before) host_.assign_mesh(proxy, given ? own->second.number : ads::kMeshOfAll);
  if (own != before && before != own_.end()) {
    before->second.proxies.erase(proxy);
    if (before->second.proxies.empty()) {
      host_.drop_mesh(before->second.number);
      own_.erase(before);
    }
  }
  return given || objects.empty();
}

}  // namespace osm::inline v1::nack_provenance
