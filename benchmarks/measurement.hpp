// Measuring one mesh: libosm first, then the bare server with the same bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "osm/result.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

// One server bringing N proxies from nothing to their first configuration.
struct Start {
  double wall_seconds = 0;
  double cpu_seconds = 0;  // of the server process
  std::uint64_t bytes = 0;
  double resident_bytes = 0;            // settled, with all connections
  double resident_bytes_per_proxy = 0;  // settled, over the same server without connections
};

struct Measurement {
  MeshSize size;
  Start osm, bare;
  // Milliseconds from a change to the last proxy that receives it; CPU of the server for it.
  struct Latency {
    double last_proxy_ms = 0;
    double cpu_ms = 0;
  };
  std::map<Change, Latency> latencies;
  // Counts that must not grow: "start.responses", "endpoint.resources_encoded", "classes", ...
  std::map<std::string, std::uint64_t> counts;

  double bytes_per_proxy_beyond_bare() const {
    return osm.resident_bytes_per_proxy - bare.resident_bytes_per_proxy;
  }
};

// `patience`: for each step.
Result<Measurement> measure(const MeshSize& size, std::chrono::seconds patience);

}  // namespace osm::bench
