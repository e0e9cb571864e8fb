// The flags of osm-controller, checked.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "mesh_options.hpp"
#include "osm/control_plane.hpp"
#include "osm/net/address.hpp"

namespace osm::controller {

struct Options : daemon::MeshOptions {
  // Exactly one of these says where the mesh is.
  std::string mesh_dir;
  std::string kubeconfig;
  bool in_cluster = false;
  bool reconcile_only = false;
  bool secrets_by_namespace = false;
  std::string state_dir = "/var/lib/osm";
  net::Address ads_address;
  std::size_t ads_memory_mb = 1024;
  ConnectionLimits ads_connections;
  net::Address validator_address;  // of Kubernetes' webhook
  std::chrono::seconds proxy_recall_interval{30};
  std::chrono::seconds rotation_max_wait{3600};
  net::Address replica_address;  // without a port; empty: none
  std::chrono::seconds stale_after{30};

  bool on_kubernetes() const { return in_cluster || !kubeconfig.empty(); }
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

}  // namespace osm::controller
