// All files that a machine needs to join the mesh: Envoy's bootstrap, the proxy certificate with
// the SDS files that name it, the mesh's host names and the interception script. The key is
// missing; its owner puts it beside them. A pure function: the caller writes the files.
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

// File name of the proxy certificate's key, among the files. It belongs to the proxy's user, mode
// 0600.
inline constexpr std::string_view kProxyKeyFile = "sds_key.pem";

// The last line of the file `hosts`.
inline constexpr std::string_view kEndOfNames = "# End of the names of the mesh.\n";

// The machine, its identity, and the part of the mesh that it needs to know.
struct VmBootstrapInput {
  WorkloadName workload;
  ServiceAccount account;
  TrustDomains trust_domain{TrustDomain("cluster.local")};  // in effect now
  std::string controller;  // "HOST:PORT" of the ADS server, as this machine reaches it
  std::string directory;   // absolute path of the files on the machine
  // The proxy certificate. Its common name becomes the node id; its key is not used.
  const certificate::Certificate& certificate;
  const std::string& trust_bundle_pem;           // certificate::Manager::trust_bundle_pem()
  std::vector<Service> services{};               // the mesh's services, for the host names
  std::string cluster_domain = "cluster.local";  // ends their full names; see ProxySettings
  InterceptionOptions interception{};   // mesh networks and controller are filled in from the above
  XdsVariant xds = XdsVariant::kDelta;  // variant of Envoy's streams
};

// One file of the machine.
struct BootstrapFile {
  std::string name;  // within the directory
  unsigned mode = 0600;
  bool proxys = true;  // owner: the proxy's user; else root, who may run it
  std::string content;
};

// The files, in the order to write them, after the key. Replace each by rename(2): Envoy watches
// the directory and then loads a renewed certificate.
// Failure: kInvalidArgument naming the field.
OSM_API Result<std::vector<BootstrapFile>> vm_bootstrap(const VmBootstrapInput& input);

}  // namespace osm::inline v1::inject
