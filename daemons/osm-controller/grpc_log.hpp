// gRPC's own lines (failed handshakes, mostly) as lines of the daemon's log, not beside it.
#pragma once

#include "osm/log.hpp"

namespace osm::controller {

// gRPC's log function is one per process: so is this. Outlives everything that uses gRPC.
class GrpcLog {
 public:
  explicit GrpcLog(LogSink& log);
  ~GrpcLog();
  GrpcLog(const GrpcLog&) = delete;
  GrpcLog& operator=(const GrpcLog&) = delete;
};

}  // namespace osm::controller
