// Bootstrap of a pod's sidecar, as the content of its Secret.
#pragma once

#include <string>
#include <vector>

#include "inject/probes.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/ids.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::inject {

struct PodBootstrapInput {
  ServiceAccount account;
  TrustDomains trust_domain;
  std::string osm_namespace;  // namespace of osm-controller
  const certificate::Certificate&
      certificate;  // the proxy certificate; its common name is the node id
  const std::string& trust_bundle_pem;
  const std::vector<Probe>& probes;
  TlsSettings tls{};
  XdsVariant xds = XdsVariant::kDelta;
};

// Failure: kInvalidArgument naming the field.
Result<std::vector<BootstrapFile>> pod_bootstrap(const PodBootstrapInput& input);

}  // namespace osm::inline v1::inject
