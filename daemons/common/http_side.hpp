// Public data on --http-address: health, metrics, version. Plain HTTP; no
// configuration but what is wrong with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/net/http_server.hpp"
#include "osm/object.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::daemon {

// The mesh that this replica serves, as ControlPlaneStatus has it.
struct MeshVersion {
  std::string replica;
  std::uint64_t generation = 0;
  std::string hash;
  bool stale = false;   // it may be older than other replicas'
  bool admits = false;  // proxies that connect now are served
};

struct HttpSideOptions {
  net::Address address;
  OwnRuntime& runtime;  // outlives the server
  // Reasons not to be ready, in words; empty: ready. Thread: any.
  std::function<std::vector<std::string>()> missing;
  std::function<std::vector<std::string>()> hanging;  // reasons not to be alive. Thread: any.
  std::function<std::vector<Problem>()> problems;     // each becomes a sample. Thread: any.
  std::function<std::optional<MeshVersion>()> mesh;   // none: there is none (yet). Thread: any.
};

// Its handlers wait for nothing and run on the mesh's threads, so health also tells that those are
// free. Failure: as HttpServer::start().
Result<std::unique_ptr<net::HttpServer>> start_http_side(const HttpSideOptions& options);

}  // namespace osm::daemon
