#include "grpc_log.hpp"

#include <grpc/support/log.h>

#include <atomic>
#include <string>

namespace osm::controller {
namespace {

std::atomic<LogSink*> g_log{nullptr};

// Most errors of gRPC are failed handshakes of foreign clients: they are warnings here.
void write(gpr_log_func_args* line) {
  LogSink* const log = g_log.load();
  if (!log) return;
  const LogLevel level =
      line->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug;
  if (log->enabled(level)) log->write(level, "gRPC", {{"detail", std::string(line->message)}});
}

}  // namespace

GrpcLog::GrpcLog(LogSink& log) {
  g_log = &log;
  gpr_set_log_function(&write);
}

GrpcLog::~GrpcLog() {
  gpr_set_log_function(nullptr);
  g_log = nullptr;
}

}  // namespace osm::controller
