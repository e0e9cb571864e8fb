// The checks of a token.
#pragma once

#include "osm/machine/join.hpp"

namespace osm::inline v1::machine {

// True if the token has all its parts, and names a server on a network: no socket of this machine.
// Without roots, any server with a certificate of the system's CAs would be taken for it.
bool is_whole(const JoinToken& token);

}  // namespace osm::inline v1::machine
