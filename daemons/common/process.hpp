// The process that a daemon is: its environment, its name, and the signals that end it.
#pragma once

#include <signal.h>

#include <map>
#include <string>

#include "osm/clock.hpp"

namespace osm::daemon {

// The environment, which the library never reads by itself.
std::map<std::string, std::string> environment();

// The name by which the replicas of a daemon know each other. Result: a name that no other replica
// has, nor this one before a restart: the host's name, which is the pod's, and a random number.
// Thread: any. Blocking: no.
std::string replica_name(Rng& rng);

// Blocks SIGTERM and SIGINT in this thread and all it starts, so that no handler ever runs; ignores
// SIGPIPE. Before any other thread is started.
sigset_t block_signals();

// Result: the signal that asks to end. From then on another one ends the process at once.
const char* wait_for_signal(const sigset_t& awaited);

}  // namespace osm::daemon
