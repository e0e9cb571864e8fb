// The interception of a pod: as a script, and as the annotation by which a CNI plugin knows it.
#pragma once

#include <string>

#include "osm/inject/interception.hpp"
#include "osm/inject/pod_interception.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::inject {

// Text for `/bin/sh -c` with iptables-restore. `options` were checked.
std::string init_script(const InterceptionOptions& options, LocalProxyMode mode);

// The value of kInterceptionAnnotation. `options` were checked.
std::string interception_annotation(const InterceptionOptions& options, LocalProxyMode mode);

}  // namespace osm::inline v1::inject
