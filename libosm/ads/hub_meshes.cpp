// Meshes of single proxies (ADR 0070); members of Hub.
#include "ads/hub.hpp"

namespace osm::inline v1::ads {

// The mesh that the stream's class is built from.
const model::MeshSnapshot& Hub::mesh_of(const Stream& stream) const {
  const MeshNumber* own = find_in(own_meshes_, stream.key());
  return own ? *classes_.mesh(*own)->snapshot : *snapshot_;
}

// The class of the stream's proxy in a mesh; without its number the mesh of a trial.
translate::ProxyClass Hub::class_in(const model::MeshSnapshot& mesh, const Stream& stream) const {
  translate::ProxyClass proxy_class = translate::class_of(mesh, stream.workload->workload);
  proxy_class.leaving = leaving_.of(stream.key());
  proxy_class.grpc = streams_.is_library(stream);
  if (const MeshNumber* own = find_in(own_meshes_, stream.key())) proxy_class.mesh = *own;
  return proxy_class;
}

void Hub::update_mesh(const MeshUpdate& update) {
  classes_.on_mesh(update.number,
                   {update.mesh.mesh, update.mesh.without, {update.generation, update.hash}, {}},
                   update.changes, SteadyTime::max());
  for (const auto& [key, number] : own_meshes_)
    if (number == update.number)
      for (const StreamId id : streams_.served(key)) classify(streams_.at(id));
  progressed_.notify(nullptr);
  trials_.release();
  pump();
}

void Hub::assign_mesh(const model::ProxyKey& proxy, MeshNumber number) {
  if (number == kMeshOfAll) {
    own_meshes_.erase(proxy);
  } else {
    own_meshes_[proxy] = number;
    leaving_.forget(proxy);
  }
  for (const StreamId id : streams_.served(proxy)) classify(streams_.at(id));
  pump();
}

std::set<model::ProxyKey> Hub::connected() const {
  std::set<model::ProxyKey> proxies;
  for (const auto& [key, id] : streams_.serving()) proxies.insert(key);
  return proxies;
}

}  // namespace osm::inline v1::ads
