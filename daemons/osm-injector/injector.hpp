// The wiring of osm-injector: the webhook and what it needs. Constructed top to bottom, destroyed
// bottom to top.
#pragma once

#include "daemon.hpp"
#include "options.hpp"

namespace osm::injector {

// Starts everything; pods are injected once namespaces and MeshConfig have been read, which
// readiness tells. Failure: what is wrong and what to do. Blocking: until the API server has
// answered.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime);

}  // namespace osm::injector
