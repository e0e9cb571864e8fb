// Envoy's bootstrap and the files beside it: of a machine and of a pod.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

struct HostPort {
  std::string host;  // IPv6 without its brackets
  std::uint16_t port = 0;
};

// "192.0.2.1:15128", "[fd00::1]:15128", "osm-controller.osm-system.svc:15128".
// Failure: kInvalidArgument for what no proxy can dial.
Result<HostPort> parse_controller(const std::string& text);

struct EnvoyBootstrap {
  std::string header{};  // comment lines
  const certificate::Certificate& certificate;
  ServiceAccount account;
  TrustDomains trust_domain;
  HostPort controller;
  std::string directory;  // where the files will be; no quotes, checked
  TlsSettings tls{};      // towards the controller
  XdsVariant xds = XdsVariant::kDelta;
  // Whether nothing is served, probes neither, until the mesh's configuration is there.
  bool wait_for_mesh = false;
  std::string clusters{};   // YAML, items of static_resources.clusters
  std::string listeners{};  // of static_resources.listeners
};

// The files that another certificate replaces, but for its key: the chain, the trust bundle, and
// the names that the control plane may have from now on. `directory`: where they will be.
std::vector<BootstrapFile> certificate_files(const certificate::Certificate& certificate,
                                             const TrustDomains& trust_domain,
                                             const std::string& directory);

// What a proxy reads, but for its key (kProxyKeyFile): the certificate with its SDS files, and
// bootstrap.yaml.
// Failure: kInvalidArgument naming the field of what would not stand in YAML, or is empty.
Result<std::vector<BootstrapFile>> proxy_files(const EnvoyBootstrap& bootstrap);

}  // namespace osm::inline v1::inject
