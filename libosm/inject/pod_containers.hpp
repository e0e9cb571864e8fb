// The two containers that an injected pod gets, as JSON.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "osm/inject/interception.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::inject {

struct ContainerImages {
  std::string envoy;
  std::string init_container;
  std::string pull_policy = "IfNotPresent";
};

// osm-init: installs the pod's interception. It needs only /bin/sh and iptables-restore.
// `interception` was checked.
boost::json::object init_container(const ContainerImages& images, const SidecarConfig& config,
                                   const InterceptionOptions& interception);

// osm-init where a CNI plugin installs the interception: it ends with a failure if that has not
// happened. It has no rights.
boost::json::object check_container(const ContainerImages& images, const SidecarConfig& config);

// The sidecar. Native: an init container that runs as long as the pod's containers.
boost::json::object envoy_container(const ContainerImages& images, const SidecarConfig& config,
                                    bool native, bool has_liveness_probes);

}  // namespace osm::inline v1::inject
