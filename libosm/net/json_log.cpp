#include "osm/runtime/json_log.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "base/log_level.hpp"
#include "base/times.hpp"
#include "net/json_text.hpp"

namespace osm::inline v1::net {

std::string rfc3339(WallTime time) { return v1::rfc3339(time, 3); }

void JsonLog::write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  std::string line = R"({"time":")" + rfc3339(clock_.wall_now()) + R"(","level":")";
  line += log_level_text(level);
  line += R"(","message":)";
  append_json_string(line, message);
  for (const LogField& field : fields) {
    line.push_back(',');
    const bool reserved = field.key == "time" || field.key == "level" || field.key == "message";
    append_json_string(line,
                       reserved ? std::string("field_").append(field.key) : std::string(field.key));
    line.push_back(':');
    append_json_string(line, field.value);
  }
  line += "}\n";
  write_line(line);
}

void JsonLog::write_line(std::string_view line) {
  std::lock_guard lock(mutex_);
  while (!line.empty()) {
    const ssize_t written = ::write(fd_, line.data(), line.size());
    if (written > 0) {
      line.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    pollfd waited{fd_, POLLOUT, 0};
    if (written < 0 && errno == EAGAIN && ::poll(&waited, 1, 1000) == 1) continue;
    return;
  }
}

}  // namespace osm::inline v1::net
