#include "osm/runtime/json_log.hpp"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <string>

#include "base/log_level.hpp"
#include "base/times.hpp"
#include "base/utf8.hpp"

namespace osm::inline v1::net {
namespace {

// While it lives, a write to a pipe that nobody reads sends this thread no SIGPIPE: the host may
// not ignore it.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    while (!pending_ && ::sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool pending_;  // already before: not ours to take
};

}  // namespace

void JsonLog::write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  boost::json::object line{{"time", rfc3339(clock_.wall_now(), 3)},
                           {"level", log_level_text(level)},
                           {"message", to_utf8(message)}};
  for (const LogField& field : fields) {
    std::string key = to_utf8(field.key);
    while (line.contains(key)) key.insert(0, "field_");
    line[key] = to_utf8(field.value);
  }
  // Boost.JSON escapes control characters up to U+001F.
  write_line(escape_controls(boost::json::serialize(line), "\\u00") + '\n');
}

void JsonLog::write_line(std::string_view line) {
  const std::lock_guard lock(mutex_);
  const NoBrokenPipe no_signal;
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
