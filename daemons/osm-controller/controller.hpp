// The wiring of osm-controller: which rooms there are and what each is given. Constructed top to
// bottom, destroyed bottom to top.
#pragma once

#include "daemon.hpp"
#include "options.hpp"

namespace osm::controller {

// Starts everything; the mesh is served once it is synced, which readiness tells.
// Failure: what is wrong and what to do, of the room it happened in. Blocking: briefly.
Result<std::unique_ptr<daemon::Daemon>> start(const Options& options, OwnRuntime& runtime);

}  // namespace osm::controller
