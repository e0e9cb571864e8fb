// Everything a machine needs to join the mesh, as files: Envoy's bootstrap, the proxy certificate
// with the SDS files that name it, the mesh's host names and the interception script; all but the
// key, which whoever made it puts beside them. A pure function: the caller writes the files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/inject/interception.hpp"
#include "osm/result.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

// Where Envoy looks for the proxy certificate's key, among the files: the proxy's, mode 0600.
inline constexpr std::string_view kProxyKeyFile = "sds_key.pem";

// Which machine, as whom, and what of the mesh it has to know.
struct VmBootstrapInput {
  WorkloadName workload;
  ServiceAccount account;
  TrustDomains trust_domain{TrustDomain("cluster.local")};  // of now
  std::string controller;  // "HOST:PORT" of the ADS server, as this machine reaches it
  std::string directory;   // absolute path the files will have on the machine
  // The proxy certificate, whose common name is the node id; its key is not looked at.
  const certificate::Certificate& certificate;
  std::vector<Service> services{};      // those of the mesh, for the host names
  InterceptionOptions interception{};   // mesh networks and controller are completed from the above
  XdsVariant xds = XdsVariant::kDelta;  // how Envoy speaks to the controller
};

// One file of the machine.
struct BootstrapFile {
  std::string name;  // within the directory
  unsigned mode = 0600;
  bool proxys = true;  // belongs to the proxy's user; else to root, who may run it
  std::string content;
};

// The files in the order to write them, after the key; each is to replace its predecessor by
// rename(2), so that a running Envoy (which watches the directory) takes up a renewed certificate.
// Failure: kInvalidArgument naming the field.
OSM_API Result<std::vector<BootstrapFile>> vm_bootstrap(const VmBootstrapInput& input);

}  // namespace osm::inline v1::inject
