// SIGTERM and SIGINT as a request to end.
#pragma once

#include <signal.h>

namespace osm::daemon {

// Blocks SIGTERM and SIGINT in this thread and all it starts, so that no handler ever runs; ignores
// SIGPIPE. Before any other thread is started.
sigset_t block_signals();

// Result: the signal that asks to end. From then on another one ends the process at once.
const char* wait_for_signal(const sigset_t& awaited);

}  // namespace osm::daemon
