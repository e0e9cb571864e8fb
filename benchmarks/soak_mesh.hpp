// The mesh of the soak: a SyntheticMesh in SMI mode that changes at random and returns to how it
// began, so that memory is compared between equal meshes.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "synthetic_mesh.hpp"

namespace osm::bench {

// Part of an HttpRouteGroup. Simulated proxies refuse every resource that contains it.
inline constexpr const char* kRefusedMarker = "soak-refused";

// The workloads, one per proxy. Driver and server replace the same ones in the same order.
class SoakWorkloads {
 public:
  explicit SoakWorkloads(const MeshSize& size);
  Workload workload(int proxy) const;
  // Another workload with another proxy id takes a proxy's place. Result: which proxy's.
  int replace_next();

 private:
  SyntheticMesh mesh_;
  std::vector<int> generations_;  // by proxy
  int replaced_ = 0;
};

class SoakMesh {
 public:
  SoakMesh(const MeshSize& size, std::uint64_t seed);
  void fill(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider);
  // Changes something at random. kReset undoes all but the replaced workloads and the beacon.
  void apply(Change change, testing::MemoryMeshSpec& spec,
             testing::MemoryEndpointsProvider& provider);

 private:
  int below(int limit) { return std::uniform_int_distribution(0, limit - 1)(random_); }
  void change_endpoints(testing::MemoryEndpointsProvider& provider);
  void change_policy(testing::MemoryMeshSpec& spec);
  void change_service(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider);
  void change_refused(testing::MemoryMeshSpec& spec);
  void remove_service(int index, testing::MemoryMeshSpec& spec,
                      testing::MemoryEndpointsProvider& provider);
  void reset(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider);

  const MeshSize size_;
  SyntheticMesh mesh_;
  SoakWorkloads workloads_;
  std::mt19937_64 random_;
  std::set<int> added_;  // services
  bool refused_ = false;
};

}  // namespace osm::bench
