// The board of a Backend in etcd.
#pragma once

#include <memory>

#include "osm/etcd/backend.hpp"
#include "osm/result.hpp"
#include "osm/runtime/replica_board.hpp"

namespace osm::inline v1::etcd {

// As Backend::join(), without the record that moves.
Result<std::unique_ptr<ReplicaBoard>> make_replicas(const BackendOptions& options);

}  // namespace osm::inline v1::etcd
