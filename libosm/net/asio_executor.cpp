#include "osm/runtime/asio_executor.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <mutex>
#include <utility>

#include "net/cancellable.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Cancellable's mutex also guards the Asio object beside it, which is not thread-safe by itself.
struct Timer : Cancellable {
  Timer(asio::io_context& context, std::function<void()> t) : timer(context), task(std::move(t)) {}
  asio::steady_timer timer;
  std::function<void()> task;
};

struct Watch : Cancellable {
  Watch(asio::io_context& context, std::function<void()> c)
      : descriptor(context), on_readable(std::move(c)) {}
  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
};

void fire(const std::shared_ptr<Timer>& timer) {
  if (!timer->begin()) return;
  std::exchange(timer->task, nullptr)();
  timer->end();
}

void cancel(const std::shared_ptr<Timer>& timer) {
  std::function<void()> released;  // destroyed after the lock
  std::unique_lock lock(timer->mutex);
  timer->cancelled = true;
  timer->timer.cancel();
  if (timer->wait(lock)) released.swap(timer->task);
}

// Precondition: mutex held, not cancelled.
void arm(const std::shared_ptr<Watch>& watch);

void ready(const std::shared_ptr<Watch>& watch) {
  if (!watch->begin()) return;
  watch->on_readable();
  std::lock_guard lock(watch->mutex);
  watch->running = false;
  watch->idle.notify_all();
  if (!watch->cancelled) arm(watch);
}

void arm(const std::shared_ptr<Watch>& watch) {
  watch->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                               [watch](const error_code& error) {
                                 if (!error) ready(watch);
                               });
}

void cancel(const std::shared_ptr<Watch>& watch) {
  std::function<void()> released;
  std::unique_lock lock(watch->mutex);
  watch->cancelled = true;
  if (watch->descriptor.is_open()) watch->descriptor.release();  // the descriptor is the caller's
  if (watch->wait(lock)) released.swap(watch->on_readable);
}

template <class T>
Subscription handle_of(std::shared_ptr<T> state) {
  void* address = state.get();
  return Subscription(
      std::shared_ptr<void>(address, [state = std::move(state)](void*) { cancel(state); }));
}

}  // namespace

void AsioExecutor::post(std::function<void()> task) { asio::post(context_, std::move(task)); }

Subscription AsioExecutor::post_after(std::chrono::nanoseconds delay, std::function<void()> task) {
  auto timer = std::make_shared<Timer>(context_, std::move(task));
  {
    std::lock_guard lock(timer->mutex);
    timer->timer.expires_after(std::max(delay, std::chrono::nanoseconds(0)));
    timer->timer.async_wait([timer](const error_code& error) {
      if (!error) fire(timer);
    });
  }
  return handle_of(std::move(timer));
}

Subscription AsioExecutor::watch(int fd, std::function<void()> on_readable) {
  // Epoll takes no regular files, which Asio would tell only when it waits.
  struct stat status {};
  if (::fstat(fd, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) return {};
  auto watch = std::make_shared<Watch>(context_, std::move(on_readable));
  {
    std::lock_guard lock(watch->mutex);
    error_code error;
    watch->descriptor.assign(fd, error);
    if (error) return {};
    arm(watch);
  }
  return handle_of(std::move(watch));
}

}  // namespace osm::inline v1::net
