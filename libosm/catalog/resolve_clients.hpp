// Resolves Retries into the client policies of identities. Pure.
#pragma once

#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::catalog {

struct ResolvedClients {
  std::vector<model::ClientPolicy> clients;
  // Retries without effect, in full or in part: MeshConfig turns them off, another one has the same
  // source and destination, or a Service is missing or has no HTTP port.
  std::vector<Problem> problems;
};

// `policies`: ordered by key; of several Retries with one source and one destination the first
// counts. `obeyed`: MeshConfig's enableRetryPolicy.
ResolvedClients resolve_clients(const Table<Policy>& policies,
                                const Table<model::ServiceEntry>& services, bool obeyed);

}  // namespace osm::inline v1::catalog
