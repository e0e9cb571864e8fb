// The bootstrap of gRPC libraries on a machine (GRPC_XDS_BOOTSTRAP). docs/adr/0065
#pragma once

#include <string>
#include <vector>

#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::admin {

struct GrpcBootstrapInput {
  std::string node_id;
  std::string controller;       // "HOST:PORT" of the ADS server, as the machine reaches it
  std::string controller_name;  // DNS name in the controller's certificate
  std::string directory;        // absolute path of the files on the machine
};

// Adds grpc_bootstrap.json to a machine's files. gRPC compares the name that it dials with the
// certificate, so it dials `controller_name`, and the file `hosts` says its address. If the machine
// reaches the controller by a name, the machine's own DNS must know `controller_name`.
// Failure: kInvalidArgument (`controller`), kUnavailable (no name).
Status add_grpc_bootstrap(const GrpcBootstrapInput& input,
                          std::vector<inject::BootstrapFile>& files);

}  // namespace osm::inline v1::admin
