// Structured logging into the host's own logger. The library never writes to stdout or stderr.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace osm {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  std::string_view key;
  std::string value;
};

class LogSink {
 public:
  virtual ~LogSink() = default;

  // Whether a line of this level would be kept. Cheap. Thread: any. Blocking: no.
  virtual bool enabled(LogLevel level) const = 0;

  // Takes one line. Lifetime: arguments live for the call only. Thread: any, concurrently.
  // Blocking: briefly at most. Never called with key material.
  virtual void write(LogLevel level, std::string_view message,
                     std::initializer_list<LogField> fields) = 0;

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

}  // namespace osm
