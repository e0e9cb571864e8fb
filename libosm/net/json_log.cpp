#include "osm/runtime/json_log.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/descriptor.hpp"
#include "base/log_level.hpp"
#include "base/times.hpp"
#include "base/utf8.hpp"

namespace osm::inline v1::net {
namespace {

constexpr Counter kLogLinesDropped{"osm_log_lines_dropped_total",
                                   "Log lines that could not be written"};

using std::chrono::steady_clock;

constexpr std::chrono::seconds kGrace{1};  // for the lines that wait when the log is destroyed
constexpr int kLookMs = 100;               // whether the log ends, while nobody reads

std::string line_of(WallTime now, LogLevel level, std::string_view message,
                    std::span<const LogField> fields) {
  boost::json::object line{
      {"time", rfc3339(now, 3)}, {"level", log_level_text(level)}, {"message", to_utf8(message)}};
  for (const LogField& field : fields) {
    std::string key = to_utf8(field.key);
    while (line.contains(key)) key.insert(0, "field_");
    line[key] = to_utf8(field.value);
  }
  // Boost.JSON escapes control characters up to U+001F.
  return escape_controls(boost::json::serialize(line), "\\u00") + '\n';
}

std::string notice_of(WallTime now, std::uint64_t dropped) {
  const LogField field{"lines", std::to_string(dropped)};
  return line_of(now, LogLevel::kWarning, std::to_string(dropped) + " log lines were dropped",
                 {&field, 1});
}

}  // namespace

// The queue, and the thread that writes it. The thread owns a reference, since a write to a device
// that hangs cannot be ended.
class JsonLog::Writer {
 public:
  Writer(int fd, const Clock& clock, MetricsSink* metrics)
      : own_(::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)),
        fd_(own_ ? own_.get() : fd),  // without a free descriptor
        clock_(clock),
        metrics_(metrics) {
    count(0);  // an alert sees the first increase of a counter that begins at 0
  }

  // No handler of the host's runs on the thread, nor does a pipe that nobody reads send SIGPIPE.
  static std::thread start(const std::shared_ptr<Writer>& self) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread([self] {
      ::pthread_setname_np(::pthread_self(), "osm-log");
      self->run();
    });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  }
  void own(std::thread thread) { thread_ = std::move(thread); }

  void put(std::string line) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_bytes_ + line.size() <= kMaxWaitingBytes) {
        enqueue({std::move(line), 0});
        return;
      }
      ++untold_;
    }
    count(1);
  }

  bool flush(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    return written_.wait_for(lock, deadline, [this] { return waiting_bytes_ == 0; });
  }

  void end() {
    std::unique_lock lock(mutex_);
    end_ = steady_clock::now() + kGrace;
    wake_.notify_one();
    const auto ended = [this] { return ended_; };
    if (!written_.wait_until(lock, *end_ + kGrace, ended) && in_write_) {
      abandoned_ = true;  // it uses nothing borrowed from here on
      return thread_.detach();
    }
    written_.wait(lock, ended);
    lock.unlock();
    thread_.join();
  }

 private:
  struct Line {
    std::string text;
    std::uint64_t tells_of = 0;  // dropped lines; 0: a line as any other
  };

  // Precondition: mutex_ held.
  void enqueue(Line line) {
    waiting_bytes_ += line.text.size();
    lines_.push_back(std::move(line));
    wake_.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return !lines_.empty() || end_; });
      if (lines_.empty()) break;
      const Line line = std::move(lines_.front());
      lines_.pop_front();
      in_write_ = true;
      lock.unlock();
      const bool written = write(line.text);
      lock.lock();
      in_write_ = false;
      if (abandoned_) return;
      waiting_bytes_ -= line.text.size();
      if (!written) {
        untold_ += std::max<std::uint64_t>(line.tells_of, 1);
        if (line.tells_of == 0) {
          lock.unlock();
          count(1);
          lock.lock();
        }
      } else if (lines_.empty() && untold_ > 0) {
        const std::uint64_t dropped = std::exchange(untold_, 0);
        enqueue({notice_of(clock_.wall_now(), dropped), dropped});
      }
      if (waiting_bytes_ == 0) written_.notify_all();
    }
    ended_ = true;
    written_.notify_all();
  }

  // The thread's. Result: false if the line is lost, or its end.
  bool write(std::string_view line) {
    const std::string text = (torn_ ? "\n" : "") + std::string(line);
    std::string_view rest = text;
    while (!rest.empty()) {
      if (!wait_for_reader()) break;
      // A pipe that has room takes so much at once, and as a whole.
      const ssize_t done = ::write(fd_, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
      if (done > 0)
        rest.remove_prefix(static_cast<std::size_t>(done));
      else if (done == 0 || (errno != EINTR && errno != EAGAIN))
        break;
    }
    if (rest.size() < text.size()) torn_ = !rest.empty();
    return rest.empty();
  }

  // Result: false if the log ends before.
  bool wait_for_reader() {
    for (pollfd asked{fd_, POLLOUT, 0};;) {
      const int ready = ::poll(&asked, 1, kLookMs);
      if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // write() says what fails
      const std::lock_guard lock(mutex_);
      if (end_ && steady_clock::now() >= *end_) return false;
    }
  }

  void count(double dropped) {
    if (metrics_ != nullptr) metrics_->add(kLogLinesDropped, {}, dropped);
  }

  const Descriptor own_;
  const int fd_;
  const Clock& clock_;
  MetricsSink* const metrics_;
  std::thread thread_;
  bool torn_ = false;  // the last line was cut; the thread's

  std::mutex mutex_;  // over the rest
  std::condition_variable wake_;
  std::condition_variable written_;
  std::deque<Line> lines_;
  std::size_t waiting_bytes_ = 0;  // of lines_ and of the line that is being written
  std::uint64_t untold_ = 0;       // number of dropped lines that no line tells of
  std::optional<steady_clock::time_point> end_;
  bool in_write_ = false;
  bool abandoned_ = false;
  bool ended_ = false;
};

JsonLog::JsonLog(int fd, LogLevel least, const Clock& clock, MetricsSink* metrics)
    : least_(least), clock_(clock), writer_(std::make_shared<Writer>(fd, clock, metrics)) {
  writer_->own(Writer::start(writer_));
}

JsonLog::~JsonLog() { writer_->end(); }

void JsonLog::write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  writer_->put(line_of(clock_.wall_now(), level, message, fields));
}

bool JsonLog::flush(std::chrono::milliseconds deadline) { return writer_->flush(deadline); }

}  // namespace osm::inline v1::net
