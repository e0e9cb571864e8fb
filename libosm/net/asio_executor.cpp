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

#include "osm/detail/call_gate.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

struct Timer {
  Timer(asio::io_context& context, std::function<void()> t) : timer(context), task(std::move(t)) {}
  detail::CallGate gate;
  asio::steady_timer timer;
  std::function<void()> task;
};

struct Watch {
  Watch(asio::io_context& context, std::function<void()> c)
      : descriptor(context), on_readable(std::move(c)) {}
  detail::CallGate gate;
  std::mutex mutex;  // guards `descriptor`, which is armed and released on different threads
  asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
};

void cancel(const std::shared_ptr<Timer>& timer) {
  timer->timer.cancel();
  if (timer->gate.close()) timer->task = nullptr;
}

// Precondition: mutex held, descriptor open.
void arm(const std::shared_ptr<Watch>& watch);

void ready(const std::shared_ptr<Watch>& watch) {
  if (!watch->gate.run([&] { watch->on_readable(); })) return;
  std::lock_guard lock(watch->mutex);
  if (watch->descriptor.is_open()) arm(watch);
}

void arm(const std::shared_ptr<Watch>& watch) {
  watch->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                               [watch](const error_code& error) {
                                 if (!error) ready(watch);
                               });
}

void cancel(const std::shared_ptr<Watch>& watch) {
  const bool idle = watch->gate.close();
  {
    std::lock_guard lock(watch->mutex);
    if (watch->descriptor.is_open())
      watch->descriptor.release();  // the descriptor belongs to the caller
  }
  if (idle) watch->on_readable = nullptr;
}

template <class T>
Subscription handle_of(std::shared_ptr<T> state) {
  void* address = state.get();
  return Subscription(
      std::shared_ptr<void>(address, [state = std::move(state)](void*) { cancel(state); }));
}

}  // namespace

template <int kVersion>
void BuiltWithBoost<kVersion>::check() {}
template struct BuiltWithBoost<BOOST_VERSION>;

void AsioExecutor::post(std::function<void()> task) { asio::post(context_, std::move(task)); }

Subscription AsioExecutor::post_after(std::chrono::nanoseconds delay, std::function<void()> task) {
  auto timer = std::make_shared<Timer>(context_, std::move(task));
  timer->timer.expires_after(std::max(delay, std::chrono::nanoseconds(0)));
  timer->timer.async_wait([timer](const error_code& error) {
    if (!error) timer->gate.run([&] { std::exchange(timer->task, nullptr)(); });
  });
  return handle_of(std::move(timer));
}

bool AsioExecutor::running_in_this_thread() const {
  return context_.get_executor().running_in_this_thread();
}

Subscription AsioExecutor::watch(int fd, std::function<void()> on_readable) {
  // epoll does not support regular files; Asio would report that only at the first wait.
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
