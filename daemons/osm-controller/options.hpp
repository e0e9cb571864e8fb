// The flags of osm-controller, checked.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "ca_options.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"

namespace osm::controller {

struct Options {
  // Exactly one of these says where the mesh is.
  std::string mesh_dir;
  std::string kubeconfig;
  bool in_cluster = false;
  std::string state_dir;
  net::Address ads_address;
  std::size_t ads_memory_mb = 1024;
  net::Address http_address;
  net::Address validator_address;  // of Kubernetes' webhook
  daemon::CaOptions ca;
  std::string osm_namespace;
  std::string mesh_name;
  TrustDomain trust_domain;
  std::chrono::seconds proxy_recall_interval{30};
  LogLevel log_level = LogLevel::kInfo;

  bool on_kubernetes() const { return in_cluster || !kubeconfig.empty(); }
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

}  // namespace osm::controller
