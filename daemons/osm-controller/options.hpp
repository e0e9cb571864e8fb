// The flags of osm-controller, checked.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "mesh_options.hpp"
#include "osm/control_plane.hpp"
#include "osm/net/address.hpp"
#include "osm/net/ports.hpp"

namespace osm::controller {

struct Options : daemon::MeshOptions {
  // Exactly one of these says where the mesh is.
  std::string mesh_dir;
  std::string mesh_etcd;  // the prefix of the mesh's keys
  std::string kubeconfig;
  bool in_cluster = false;
  std::string service_cidr;     // network of Services without an address; empty: none
  std::string cluster_name;     // of the Kubernetes cluster
  std::string remote_clusters;  // directory of kubeconfigs
  bool reconcile_only = false;
  bool secrets_by_namespace = false;
  std::string providers;  // file; empty: none
  std::string state_dir = "/var/lib/osm";
  net::Address ads_address;
  std::string join_address;  // empty: machines do not join by token
  std::size_t ads_memory_mb = 1024;
  ConnectionLimits ads_connections{.reserved_descriptors = net::kReservedDescriptors};
  net::Address validator_address;     // of Kubernetes' webhook
  net::Address remote_admin_address;  // of the admin API, on Kubernetes
  std::chrono::seconds proxy_recall_interval{30};
  std::chrono::seconds rotation_max_wait{3600};
  net::Address replica_address;  // without a port; empty: none
  std::chrono::seconds stale_after{30};
  bool rebalance = false;
  std::string azure_config;              // file; empty: no AzureResources
  std::vector<std::string> dns_servers;  // empty: the system's

  bool on_kubernetes() const { return in_cluster || !kubeconfig.empty(); }
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

}  // namespace osm::controller
