// gRPC's own lines in the log of a host, which gRPC writes to stderr otherwise.
//
//   const auto lines = route_grpc_log(runtime.log, runtime.clock);
//   auto mesh = ControlPlane::start(...);
#pragma once

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/log.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

// gRPC's lines (failed handshakes, mostly) become lines "gRPC" of `log`: errors as warnings, since
// most are failed handshakes of foreign clients, and the rest at level debug. Anybody can cause
// them, so each statement of gRPC is bounded: ten lines at once, then one every ten seconds.
// Result: a handle, whose destructor ends gRPC, in a second at most, if nobody uses it any more.
// gRPC's threads free handshakes and channels after its server has ended: the process must not end
// meanwhile.
// Lifetime: `log` and `clock` outlive the handle. gRPC's log function is one per process: keep one
// handle at a time, until everything that uses gRPC is gone. Thread: any but gRPC's. Blocking: no;
// the handle's destructor, for gRPC's end.
OSM_API Subscription route_grpc_log(LogSink& log, const Clock& clock);

}  // namespace osm::inline v1
