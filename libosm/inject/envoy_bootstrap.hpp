// Envoy's bootstrap and its other files, for a machine and for a pod.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

struct HostPort {
  std::string host;  // IPv6 without its brackets
  std::uint16_t port = 0;
};

// Parses "192.0.2.1:15128", "[fd00::1]:15128" or "osm-controller.osm-system.svc:15128".
// Failure: kInvalidArgument for an address that no proxy can dial.
Result<HostPort> parse_controller(const std::string& text);

struct EnvoyBootstrap {
  std::string header{};  // comment lines
  const certificate::Certificate& certificate;
  const std::string& trust_bundle_pem;
  ServiceAccount account;
  TrustDomains trust_domain;
  HostPort controller{};
  std::string directory{};  // directory of the files, checked: it holds no quotes
  XdsVariant xds = XdsVariant::kDelta;
  // true: Envoy serves nothing, not even probes, before it has the mesh's configuration
  bool wait_for_mesh = false;
  std::string clusters{};   // YAML, items of static_resources.clusters
  std::string listeners{};  // YAML, items of static_resources.listeners
};

// The files that a renewal replaces, without the key: the chain, the trust bundle, and the names
// that the control plane may have from now on. `directory`: their directory.
std::vector<BootstrapFile> certificate_files(const certificate::Certificate& certificate,
                                             const std::string& trust_bundle_pem,
                                             const TrustDomains& trust_domain,
                                             const std::string& directory);

// The files that a proxy reads, without its key (kProxyKeyFile): the certificate with its SDS
// files, and bootstrap.yaml.
// Failure: kInvalidArgument naming a field that is empty or cannot be written in YAML.
Result<std::vector<BootstrapFile>> proxy_files(const EnvoyBootstrap& bootstrap);

}  // namespace osm::inline v1::inject
