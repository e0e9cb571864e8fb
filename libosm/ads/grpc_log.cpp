#include "osm/runtime/grpc_log.hpp"

#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/log_limit.hpp"

namespace osm::inline v1 {
namespace {

class GrpcLog;

// gRPC's log function is one per process: so is this. A thread of gRPC may write while it changes.
std::shared_mutex grpc_log_mutex;
GrpcLog* grpc_log = nullptr;  // guarded by it

class GrpcLog {
 public:
  GrpcLog(LogSink& log, const Clock& clock) : log_(log), limits_(clock) {
    const std::unique_lock lock(grpc_log_mutex);
    grpc_log = this;
    gpr_set_log_function([](gpr_log_func_args* line) {
      const std::shared_lock held(grpc_log_mutex);
      if (GrpcLog* const self = grpc_log) self->write(*line);
    });
  }
  // gRPC's threads free handshakes and channels after its server has ended, and OpenSSL's state of
  // a thread with them.
  ~GrpcLog() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (grpc_is_initialized() != 0 && std::chrono::steady_clock::now() < deadline) {
      grpc_init();  // this thread ends it if nobody else holds it
      grpc_shutdown_blocking();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::unique_lock lock(grpc_log_mutex);
    if (grpc_log != this) return;
    gpr_set_log_function(nullptr);
    grpc_log = nullptr;
  }
  GrpcLog(const GrpcLog&) = delete;

 private:
  void write(const gpr_log_func_args& line) {
    const LogLevel level =
        line.severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug;
    if (!log_.enabled(level)) return;
    std::unique_lock lock(mutex_);
    // Each statement of gRPC has a limit of its own, so that frequent lines hide no rare ones.
    const auto left_out = limits_.admit({line.file, line.line});
    lock.unlock();
    if (left_out)
      log_.write(level, "gRPC",
                 {{"detail", line.message}, {"left_out", std::to_string(*left_out)}});
  }

  LogSink& log_;
  std::mutex mutex_;
  LogLimits<std::pair<std::string, int>> limits_;  // guarded by mutex_
};

}  // namespace

Subscription route_grpc_log(LogSink& log, const Clock& clock) {
  return Subscription(std::make_shared<GrpcLog>(log, clock));
}

}  // namespace osm::inline v1
