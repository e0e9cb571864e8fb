// The name by which the replicas of a daemon know each other.
#pragma once

#include <string>

#include "osm/clock.hpp"

namespace osm::daemon {

// Result: a name that no other replica has, nor this one before a restart: the host's name, which
// is the pod's, and a random number. Thread: any. Blocking: no.
std::string replica_name(Rng& rng);

}  // namespace osm::daemon
