// Everything a machine needs to join the mesh, as files: Envoy's bootstrap, the proxy certificate
// with the SDS files that name it, the mesh's host names and the interception script. A pure
// function: the caller writes the files.
#pragma once

#include <string>
#include <vector>

#include "inject/interception.hpp"
#include "osm/certificate.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/service.hpp"

namespace osm::inject {

struct VmBootstrapInput {
  WorkloadName workload;
  ServiceAccount account;
  TrustDomain trust_domain{"cluster.local"};
  std::string controller;  // "HOST:PORT" of the ADS server, as this machine reaches it
  std::string directory;   // absolute path the files will have on the machine
  const certificate::Certificate& certificate;  // the proxy certificate; its CN is the node id
  std::vector<Service> services{};              // those of the mesh, for the host names
  InterceptionOptions interception{};  // mesh networks and controller are completed from the above
};

struct BootstrapFile {
  std::string name;  // within the directory
  unsigned mode = 0600;
  bool proxys = true;  // belongs to the proxy's user; else to root, who may run it
  std::string content;
};

// The files in the order to write them; each is to replace its predecessor by rename(2), so that a
// running Envoy (which watches the directory) takes up a renewed certificate. One holds the key.
// Failure: kInvalidArgument naming the field.
Result<std::vector<BootstrapFile>> vm_bootstrap(const VmBootstrapInput& input);

}  // namespace osm::inject
