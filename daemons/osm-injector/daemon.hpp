// The wiring: the webhook and what it needs. Constructed top to bottom, destroyed bottom to top.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "options.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::injector {

class Daemon {
 public:
  virtual ~Daemon() = default;

  // Starts everything; pods are injected once namespaces and MeshConfig have been read, which
  // readiness tells. Failure: what is wrong and what to do. Blocking: until the API server has
  // answered. `log` keeps what MeshConfig's spec.observability.osmLogLevel asks for.
  static Result<std::unique_ptr<Daemon>> start(const Options& options, OwnRuntime& runtime);

  // "HOST:PORT" with the real port.
  virtual std::string webhook_address() const = 0;
  virtual std::string http_address() const = 0;

  // Answers what was asked, and ends within `deadline`; then destroy it.
  virtual void shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::injector
