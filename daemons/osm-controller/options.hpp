// What osm-controller was told, checked.
#pragma once

#include <string>

#include "net/address.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"

namespace osm::controller {

struct Options {
  std::string mesh_dir;
  std::string state_dir;
  net::Address ads_address;
  net::Address http_address;
  std::string osm_namespace;
  std::string mesh_name;
  TrustDomain trust_domain;
  LogLevel log_level = LogLevel::kInfo;
};

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1 and `options` filled.
int parse_options(int argc, char** argv, Options& options);

}  // namespace osm::controller
