// A hash of the content of snapshots: equal for equal content, on every replica and after every
// order of changes. It is the sum of the hashes of the entries, so a change costs its own entries,
// and a comparison of pointers for the others. Not synchronized.
#pragma once

#include <cstdint>
#include <string>

#include "model/mesh_snapshot.hpp"

namespace osm::inline v1::catalog {

class MeshHash {
 public:
  // The hash of `snapshot`, 16 digits, which is compared with the snapshot of the last call.
  std::string update(const model::MeshSnapshot& snapshot);

 private:
  template <class V>
  void replace(model::Table<V>& before, const model::Table<V>& after);

  std::uint64_t sum_ = 0;  // of the entries of these tables
  model::Table<model::ServiceEntry> services_;
  model::Table<model::ServiceEndpoints> endpoints_;
  model::Table<model::IdentityPolicy> policies_;
  model::Table<model::WorkloadEntry> workloads_;
  model::Table<model::ClientPolicy> clients_;
  model::Table<model::TelemetryEntry> telemetries_;
};

}  // namespace osm::inline v1::catalog
