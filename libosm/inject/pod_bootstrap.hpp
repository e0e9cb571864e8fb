// Bootstrap of a pod's sidecar, as the content of its Secret.
#pragma once

#include <string>
#include <vector>

#include "inject/envoy_bootstrap.hpp"
#include "inject/probes.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::inject {

// The files of a proxy with its key, and with what a pod's sidecar has besides `input`: a listener
// for its probes and the controller's address. `osm_namespace`: the controller's.
// Failure: kInvalidArgument naming the field.
Result<std::vector<BootstrapFile>> pod_bootstrap(EnvoyBootstrap input,
                                                 const std::vector<Probe>& probes,
                                                 const std::string& osm_namespace);

}  // namespace osm::inline v1::inject
