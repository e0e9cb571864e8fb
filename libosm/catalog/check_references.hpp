// References between valid objects that lead to nothing: accounts that nobody has, backends that no
// client may call, and matches that no request can meet.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "catalog/resolve_policies.hpp"
#include "catalog/spec_changes.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

// Source accounts that nobody has: no workload or endpoint runs as them, and no ServiceAccount
// object has their name. The cost of a change is proportional to the touched accounts and targets;
// only other policies are looked at together. Plain data; not thread-safe.
class UnknownSources {
 public:
  // Updates the problems after `now.changes` from `before` to `now`, and `spec`. `index`: of `now`.
  void update(const SpecChanges& spec, const model::MeshSnapshot& before,
              const model::MeshSnapshot& now, const PolicyIndex& index);
  void add_problems(std::vector<Problem>& out) const;

 private:
  using Accounts = std::set<ServiceIdentity>;

  void hold(const ServiceIdentity& account, Accounts& turned);
  void release(const ServiceIdentity& account, Accounts& turned);
  void read_declared(const SpecSnapshot& spec, Accounts& turned);
  Accounts update_holders(const model::MeshSnapshot& before, const model::MeshSnapshot& now);
  template <class Sources>
  void check(const ObjectKey& object, const char* field, const Sources& sources);

  Accounts declared_;                               // by ServiceAccount objects
  std::map<ServiceIdentity, std::size_t> holders_;  // account → number of its workloads, …
  std::map<ObjectKey, Problem> problems_;  // one for each object, whatever its accounts are
};

// Backends with a weight that no client of their apex may call. SMI mode only.
std::vector<Problem> check_backends(const Table<model::ServiceEntry>& services,
                                    const Table<smi::TrafficSplit>& splits,
                                    const PolicyIndex& index);

// Matches that ask for a header whose name has an underscore, if every Service of the destinations
// refuses such requests.
std::vector<Problem> check_header_names(const SpecSnapshot& objects, const PolicyIndex& index);

}  // namespace osm::inline v1::catalog
