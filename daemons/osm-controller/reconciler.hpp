// --reconcile-only: a program beside the mesh that creates and restores its CRDs and webhook
// configurations.
#pragma once

#include <memory>

#include "daemon.hpp"
#include "options.hpp"
#include "osm/result.hpp"

namespace osm::controller {

// Failure: the fault of the kubeconfig or of --http-address, and the remedy.
Result<std::unique_ptr<daemon::Daemon>> start_reconciler(const Options& options,
                                                         OwnRuntime& runtime);

}  // namespace osm::controller
