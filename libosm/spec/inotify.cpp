#include "spec/inotify.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace osm::inline v1::spec {
namespace {

constexpr std::uint32_t kMask = IN_CLOSE_WRITE | IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE |
                                IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                                IN_ONLYDIR;

}  // namespace

Result<std::unique_ptr<Inotify>> Inotify::open() {
  const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0)
    return Error{ErrorCode::kUnavailable,
                 std::string("cannot watch files (inotify_init1): ") + std::strerror(errno) +
                     "; raise fs.inotify.max_user_instances or the limit of open files"};
  return std::unique_ptr<Inotify>(new Inotify(fd));
}

Result<int> Inotify::add(const std::string& directory) {
  const int watch = inotify_add_watch(fd(), directory.c_str(), kMask);
  if (watch < 0)
    return Error{ErrorCode::kUnavailable,
                 directory + ": cannot be watched: " + std::strerror(errno) +
                     (errno == ENOSPC ? "; raise fs.inotify.max_user_watches" : "")};
  return watch;
}

void Inotify::remove(int watch) { inotify_rm_watch(fd(), watch); }

void Inotify::read_available() {
  std::lock_guard lock(mutex_);
  read_locked();
}

std::vector<Inotify::Event> Inotify::take() {
  std::lock_guard lock(mutex_);
  read_locked();
  return std::exchange(events_, {});
}

void Inotify::read_locked() {
  alignas(inotify_event) std::array<char, 16 * 1024> buffer;
  for (;;) {
    const ssize_t size = ::read(fd(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    for (ssize_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      events_.push_back({event->wd, event->mask, event->len > 0 ? event->name : ""});
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

}  // namespace osm::inline v1::spec
