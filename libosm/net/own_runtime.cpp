#include "osm/runtime/own_runtime.hpp"

#include <utility>

#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::inline v1 {

class OwnRuntime::Parts {
 public:
  explicit Parts(const OwnRuntimeOptions& options)
      : log(options.log_fd, options.least, clock, &metrics),
        io(options.threads),
        blocking(options.blocking_threads) {}

  // Join both before either is destroyed: a last task of one may post to the other.
  ~Parts() {
    blocking.join();
    io.join();
  }

  SystemClock clock;
  RandomRng rng;
  net::PrometheusRegistry metrics;
  net::JsonLog log;
  net::Threads io;
  net::Threads blocking;
};

OwnRuntime::OwnRuntime(const OwnRuntimeOptions& options)
    : OwnRuntime(std::make_unique<Parts>(options)) {}

OwnRuntime::OwnRuntime(std::unique_ptr<Parts> parts)
    : Runtime{parts->io.executor(), parts->blocking.executor(),
              parts->clock,         parts->rng,
              parts->log,           parts->metrics},
      parts_(std::move(parts)) {}

OwnRuntime::~OwnRuntime() = default;

net::AsioExecutor& OwnRuntime::asio() const { return parts_->io.executor(); }
net::JsonLog& OwnRuntime::json_log() const { return parts_->log; }
net::PrometheusRegistry& OwnRuntime::registry() const { return parts_->metrics; }

}  // namespace osm::inline v1
