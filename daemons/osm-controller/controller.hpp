// The wiring: which rooms there are and what each is given. Constructed top to bottom, destroyed
// bottom to top.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "options.hpp"
#include "osm/result.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::controller {

class Controller {
 public:
  virtual ~Controller() = default;

  // Starts everything; the mesh is served once it is synced, which readiness tells. `log` keeps
  // what MeshConfig wants to see, else what the options do.
  // Failure: what is wrong and what to do, of the room it happened in. Blocking: briefly.
  static Result<std::unique_ptr<Controller>> start(const Options& options, OwnRuntime& runtime);

  // "HOST:PORT" with the real port.
  virtual std::string ads_address() const = 0;
  virtual std::string http_address() const = 0;
  virtual std::string admin_address() const = 0;

  // Ends streams, then servers, each within its share of `deadline`; then destroy it.
  virtual void shutdown(std::chrono::milliseconds deadline) = 0;
};

}  // namespace osm::controller
