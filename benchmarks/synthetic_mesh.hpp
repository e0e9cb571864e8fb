// The mesh that mesh_bench measures: N proxies spread evenly over S services of one account each.
// Both processes build the same one from the same options, so neither has to send it to the other.
//
//   SMI mode         service k may be called by the accounts of the 10 services before it
//   permissive mode  everybody calls everybody, and s0 is split between s1 and s2
//   both             one more service, the beacon, that every proxy calls: a change of its
//                    endpoints reaches everybody, after everything that was sent before it
#pragma once

#include <bitset>
#include <string>
#include <vector>

#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/workload.hpp"

namespace osm::bench {

enum class Change {
  kEndpoint,
  kPolicy,
  kCertificate,
  kBeacon,
  kService,
  kRoot,
  // Only the soak uses it (soak_mesh.hpp).
  kWorkload,
  kRefused,
  kReset,
};
inline constexpr std::array kChanges{Change::kEndpoint, Change::kPolicy,  Change::kCertificate,
                                     Change::kBeacon,   Change::kService, Change::kRoot,
                                     Change::kWorkload, Change::kRefused, Change::kReset};
// "endpoint", "policy", "certificate" and so on.
std::string change_text(Change change);

struct MeshSize {
  bool permissive = false;
  int proxies = 10;
  int services = 10;  // 3 ≤ services ≤ proxies

  // "smi-100x10"
  std::string name() const;
};

// Types of responses, by XdsType, that a change must bring to one proxy.
struct Touch {
  int proxy = 0;
  std::bitset<5> types;
};

inline const TrustDomain kTrustDomain{"cluster.local"};
// The MeshRootCertificate that Change::kRoot declares.
inline constexpr const char* kNextRoot = "next";

class SyntheticMesh {
 public:
  explicit SyntheticMesh(const MeshSize& size) : size_(size) {}

  Workload workload(int proxy) const;
  int callers() const;  // per service, in SMI mode
  ServiceName service(int index) const;
  ServiceAccount account(int index) const;
  Service service_object(int index) const;
  // May be called by the accounts of the `sources` services before it.
  smi::TrafficTarget target(int index, int sources) const;
  smi::TrafficSplit split(int first_weight) const;
  std::vector<Endpoint> endpoints(int index) const;
  // The beacon's value after `generation` changes.
  Endpoint beacon(int generation) const;
  // The account whose certificate Change::kCertificate rotates.
  ServiceIdentity rotated_identity() const;

  // Puts the whole mesh into `spec` and `provider`.
  void fill(testing::MemoryMeshSpec& spec, testing::MemoryEndpointsProvider& provider) const;
  // Does it (not kCertificate, which is the certificate manager's, nor the soak's own). Every call
  // changes something.
  void apply(Change change, testing::MemoryMeshSpec& spec,
             testing::MemoryEndpointsProvider& provider);

  // The proxies that `change` concerns; nobody else may receive anything.
  std::vector<Touch> touched_by(Change change) const;

 private:
  int service_of(int proxy) const { return proxy % size_.services; }

  MeshSize size_;
  int generation_ = 0;
};

}  // namespace osm::bench
