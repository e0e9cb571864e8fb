#include "osm/runtime/own_runtime.hpp"

#include <utility>

#include "base/watched_executor.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::inline v1 {

class OwnRuntime::Parts {
 public:
  // Takes each value for a sign that the task goes on which records it. Calls of the API server and
  // of Vault are counted: a task may make any number of them, each of which ends in time.
  class TickingMetrics final : public MetricsSink {
   public:
    explicit TickingMetrics(MetricsSink& metrics) : metrics_(metrics) {}

    void record(const MetricDescriptor& metric, MetricLabels labels, double value) override {
      WatchedExecutor::tick();
      metrics_.record(metric, labels, value);
    }

   private:
    MetricsSink& metrics_;
  };

  explicit Parts(const OwnRuntimeOptions& options)
      : log(options.log_fd, options.least, clock, &metrics),
        io(options.threads),
        blocking(
            lanes,
            {.name = options.blocking_name, .bound = options.blocking_threads, .watched = true}) {}

  // Join both before either is destroyed: a last task of one may post to the other.
  ~Parts() {
    blocking.join();
    io.join();
  }

  SystemClock clock;
  RandomRng rng;
  net::PrometheusRegistry metrics;
  TickingMetrics ticking{metrics};
  net::JsonLog log;
  net::Lanes lanes{clock, net::Lanes::kRest, &log};
  net::Threads io;  // a task that it drops may own a lane
  net::Lane blocking;
};

OwnRuntime::OwnRuntime(const OwnRuntimeOptions& options)
    : OwnRuntime(std::make_unique<Parts>(options)) {}

OwnRuntime::OwnRuntime(std::unique_ptr<Parts> parts)
    : Runtime{parts->io.executor(), parts->blocking, parts->clock,
              parts->rng,           parts->log,      parts->ticking},
      parts_(std::move(parts)) {}

OwnRuntime::~OwnRuntime() = default;

net::AsioExecutor& OwnRuntime::asio() const { return parts_->io.executor(); }
net::Lanes& OwnRuntime::lanes() const { return parts_->lanes; }
net::JsonLog& OwnRuntime::json_log() const { return parts_->log; }
net::PrometheusRegistry& OwnRuntime::registry() const { return parts_->metrics; }

}  // namespace osm::inline v1
