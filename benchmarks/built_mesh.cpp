#include "built_mesh.hpp"

namespace osm::bench {

BuiltMesh::BuiltMesh(const MeshSize& size) : mesh_(size) {
  mesh_.fill(spec_, provider_);
  loop_ = std::make_unique<catalog::MeshLoop>(
      catalog::MeshLoopOptions{.spec = spec_,
                               .providers = {{&provider_, true}},
                               .workload_providers = {&provider_},
                               .trust_domain = kTrustDomain,
                               .runtime = {executor_, executor_, clock_, rng_, log_, metrics_}});
  settle();
}

std::shared_ptr<const model::MeshSnapshot> BuiltMesh::after(Change change) {
  mesh_.apply(change, spec_, provider_);
  settle();
  return snapshot();
}

void BuiltMesh::settle() {
  // Longer than the longest debounce.
  executor_.run_for(std::chrono::seconds(1));
}

}  // namespace osm::bench
