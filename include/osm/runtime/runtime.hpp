// The services of a host that every part of the mesh uses. Option structs hold one Runtime; a host
// without services of its own makes an OwnRuntime (osm/runtime/own_runtime.hpp).
#pragma once

#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1 {

// Lifetime: everything borrowed outlives what was made with it. A Runtime may be copied.
struct Runtime {
  Executor& executor;    // its tasks never block
  Executor& blocking;    // its tasks may wait for a disk, a name server, a CA or an API server
  const Clock& clock;    // calendar and monotonic time
  Rng& rng;              // jitter and ids; never keys
  LogSink& log;          // without secrets
  MetricsSink& metrics;  // with bounded label sets
};

}  // namespace osm::inline v1
