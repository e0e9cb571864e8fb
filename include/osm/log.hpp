// Structured logging into the host's own logger. The library never writes to stdout or stderr.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Severity, ascending. kDebug is for developers; kError needs an operator.
enum class LogLevel { kDebug, kInfo, kWarning, kError };

// A key and its value. Values are never secrets.
struct LogField {
  std::string_view key;
  std::string value;
};

// Receives log lines.
class OSM_API LogSink {
 public:
  virtual ~LogSink() = default;

  // True if the sink would keep a line of this level. Cheap. Thread: any. Blocking: no.
  virtual bool enabled(LogLevel level) const = 0;

  // Writes one line. Never called with key material.
  // Lifetime: arguments live for the call only. Thread: any, concurrently.
  // Blocking: briefly at most.
  virtual void write(LogLevel level, std::string_view message,
                     std::span<const LogField> fields) = 0;

  // The same for fields in braces.
  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
    write(level, message, std::span<const LogField>(fields));
  }

  // All four call write() at that level if the sink would keep such a line. Thread: any,
  // concurrently.
  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) {
    if (enabled(LogLevel::kDebug)) write(LogLevel::kDebug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) {
    if (enabled(LogLevel::kInfo)) write(LogLevel::kInfo, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) {
    if (enabled(LogLevel::kWarning)) write(LogLevel::kWarning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) {
    if (enabled(LogLevel::kError)) write(LogLevel::kError, message, fields);
  }
};

}  // namespace osm::inline v1
