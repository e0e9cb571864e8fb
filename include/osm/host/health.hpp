// Public data of a program that runs a mesh: /health/ready, /health/alive, /metrics and /version.
// Plain HTTP; no configuration but what is wrong with it.
//
//   auto health = host::Health::start({.address = {"0.0.0.0", 9091}, .runtime = runtime, ...});
//   ...                                             // the program starts, which may take long
//   const auto followed = (*health)->follow(mesh);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/net/address.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::host {

// Problem::path of a CA that does not sign. Readiness tells it and goes on: every replica has the
// same CA, and the certificates that they serve are needed all the more.
inline constexpr const char* kAuthority = "certificate authority";

// The mesh that a replica serves, as ControlPlaneStatus has it.
struct MeshVersion {
  std::string replica;  // its name on the board
  std::uint64_t generation = 0;
  std::string hash;
  bool stale = false;   // it may be older than other replicas'
  bool admits = false;  // proxies that connect now are served
};

// A part of a program, as health and metrics ask it: the start first, then what it started.
// Thread: any, concurrently. Blocking: no.
class OSM_API Monitored {
 public:
  virtual ~Monitored() = default;

  // Reasons not to be ready, in words; empty: ready.
  virtual std::vector<std::string> missing() const = 0;
  // Each becomes a sample of osm_problem.
  virtual std::vector<Problem> problems() const = 0;
  // Reasons not to be alive, beside the lanes of the runtime.
  virtual std::vector<std::string> hanging() const { return {}; }
  // None: it serves no mesh (yet).
  virtual std::optional<MeshVersion> mesh() const { return std::nullopt; }
};

// Lifetime: the references outlive the server.
struct HealthOptions {
  net::Address address;
  OwnRuntime& runtime;     // its metrics are exposed
  const Monitored& start;  // asked while nothing is followed
  std::string version{};   // of the program, for /version and osm_version_info
  std::string commit{};
};

// The server. Requests have no body, and connections are bounded by net::kMonitorPort. Its handlers
// run on `executor`, the mesh's threads, so that health also tells that those are free.
class OSM_API Health {
 public:
  virtual ~Health() = default;  // calls stop() with a deadline of one second

  // Failure: as net::HttpServer::start(). Blocking: briefly, for the look-up of a host name.
  static Result<std::unique_ptr<Health>> start(const HealthOptions& options);

  // The address with the real port. Thread: any. Blocking: no.
  virtual net::Address address() const = 0;

  // Asks `part` in place of the start, and the lanes of the runtime too. Result: a handle, after
  // whose end the start is asked again. Lifetime: `part` outlives the handle. Thread: any, one part
  // at a time. Blocking: no; the handle's destructor, for a running question.
  virtual Subscription follow(const Monitored& part) = 0;

  // As net::HttpServer::stop(). Failure: kDeadlineExceeded (connections were cut). Thread: any but
  // those of the runtime. Blocking: until no handler runs.
  virtual Status stop(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::inline v1::host
