// Writes the Secret with the bootstrap configuration of an injected pod.
#pragma once

#include "options.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/result.hpp"

namespace osm::injector {

// A Secret that exists already stays as it is. Failure: kPermissionDenied, with the command that
// allows it; else the API server's. Thread: any. Blocking: until the API server answers.
Status write_secret(kubernetes::Cluster& cluster, const Options& options,
                    const inject::BootstrapSecret& secret);

}  // namespace osm::injector
