// The name by which the replicas of a daemon know each other.
#pragma once

#include <string>

#include "osm/clock.hpp"

namespace osm::daemon {

// Of no other replica, nor of this one before it was restarted: the host's name, which is the
// pod's, and a random number. Thread: any. Blocking: no.
std::string replica_name(Rng& rng);

}  // namespace osm::daemon
