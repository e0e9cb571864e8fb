// The flags of osm-injector, checked.
#pragma once

#include <optional>
#include <string>

#include "ca_options.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"

namespace osm::injector {

struct Options {
  // Exactly one of these says which cluster.
  std::string kubeconfig;
  bool in_cluster = false;
  net::Address listen;  // the webhook
  net::Address http_address;
  std::string client_ca_pem;  // of those who may ask the webhook; empty: whoever reaches it
  daemon::CaOptions ca;
  std::string osm_namespace;
  std::string mesh_name;
  TrustDomain trust_domain;
  std::string envoy_image;
  std::string init_container_image;
  std::string image_pull_policy;
  std::optional<bool> native_sidecars;  // absent: as the API server's version says
  LogLevel log_level = LogLevel::kInfo;
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

}  // namespace osm::injector
