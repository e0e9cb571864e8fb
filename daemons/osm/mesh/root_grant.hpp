// The daemons' right to a root's CA on Kubernetes.
#pragma once

#include <string>

#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// Lets the daemons of the control plane in namespace `ns` read the Secret of the CA of a root:
// makes a Role and a RoleBinding, unless they are there. Failure: as kubernetes::create_object().
// Blocking: until the server answers.
Status grant_root(kubernetes::Cluster& cluster, const std::string& ns, const std::string& root,
                  const std::string& secret);

}  // namespace osm::cli
