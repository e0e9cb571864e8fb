// The server of the soak: a whole control plane over memory fakes, whose certificates live minutes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "measured_server.hpp"
#include "osm/result.hpp"
#include "synthetic_mesh.hpp"

namespace osm::bench {

struct SoakServerOptions {
  MeshSize size;
  std::string ca_directory;
  std::uint64_t seed = 0;
  std::size_t leaked_bytes = 0;  // kept for ever by every change of the beacon, which is every wave
};

// Its metrics() also have "proxies" (connected), "problems", "descriptors", "threads" and
// "allocated": bytes of the heap in use, which do not grow when it is fragmented.
Result<std::unique_ptr<MeasuredServer>> start_soak_server(const SoakServerOptions& options);

}  // namespace osm::bench
