// A hash of the content of snapshots: equal for equal content, on every replica and after every
// order of changes. It is the sum of the hashes of the entries, so a change costs its own entries,
// and a comparison of pointers for the others. Not synchronized.
//
// The digests are sums of the same hashes by bucket.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "model/mesh_digests.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

class MeshHash {
 public:
  // The hash of `snapshot`, 16 digits, which is compared with the snapshot of the last call.
  std::string update(const model::MeshSnapshot& snapshot);
  // Of the snapshot of the last update().
  const model::MeshDigests& digests() const { return digests_; }

 private:
  template <class V>
  void replace(Table<V>& before, const Table<V>& after);

  std::uint64_t sum_ = 0;  // of the entries of these tables
  model::MeshDigests digests_;
  Table<model::ServiceEntry> services_;
  Table<model::ServiceEndpoints> endpoints_;
  Table<model::IdentityPolicy> policies_;
  Table<model::WorkloadEntry> workloads_;
  Table<model::ClientPolicy> clients_;
  Table<model::TelemetryEntry> telemetries_;
};

// True if another mesh, of these digests, has the entries of an object as `ours` has them: it has
// the object's present version, or one without another effect. False also while entries differ that
// share a bucket with these.
bool is_same_for(const ObjectKey& object, const std::set<model::EntryKey>& entries,
                 const model::MeshSnapshot& ours, const model::MeshDigests& theirs);

}  // namespace osm::inline v1::catalog
