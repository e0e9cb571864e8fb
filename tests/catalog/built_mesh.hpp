// A mesh in memory with one provider, whose changes reach the builder as in production.
#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "catalog/mesh_builder.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

namespace osm::inline v1::catalog::values {

struct BuiltMesh {
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider vm{"vm"};
  MeshBuilder builder{spec, {{&vm}}, {&vm}, TrustDomain("cluster.local")};
  Subscription endpoints =
      vm.subscribe([this](const auto& services) { builder.endpoints_changed(services); });
  Subscription workloads =
      vm.subscribe_workloads([this](const auto& names) { builder.workloads_changed(names); });
  std::shared_ptr<const model::MeshSnapshot> last;

  // Something has changed.
  const model::MeshSnapshot& next() {
    last = builder.build();
    REQUIRE(last);
    return *last;
  }
};

}  // namespace osm::inline v1::catalog::values
