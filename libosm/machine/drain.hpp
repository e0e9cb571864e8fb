// A machine takes itself out of its Services.
#pragma once

#include "machine/proxy_files.hpp"
#include "osm/clock.hpp"
#include "osm/machine/leave.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// drain() of a machine whose files are read.
Status drain_self(ProxyFiles files, const DrainOptions& options, const Clock& clock);

}  // namespace osm::inline v1::machine
