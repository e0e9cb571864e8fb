#include "osm/runtime/threads.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/may_wait.hpp"

namespace osm::inline v1::net {

class Threads::Impl {
 public:
  explicit Impl(unsigned count) : running_(count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        context_.run();
        std::lock_guard lock(mutex_);
        if (--running_ == 0) idle_.notify_all();
      });
    }
  }
  ~Impl() { join(); }

  AsioExecutor& executor() { return executor_; }

  void join() {
    guard_.reset();
    {
      std::unique_lock lock(mutex_);
      idle_.wait_for(lock, std::chrono::seconds(1), [this] { return running_ == 0; });
    }
    context_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_ =
      boost::asio::make_work_guard(context_);
  AsioExecutor executor_{context_};
  std::mutex mutex_;
  std::condition_variable idle_;
  unsigned running_;
  std::vector<std::thread> threads_;
};

Threads::Threads(unsigned count) : impl_(std::make_unique<Impl>(count)) {}
Threads::~Threads() { join(); }
AsioExecutor& Threads::executor() { return impl_->executor(); }
void Threads::join() {
  require_may_wait(impl_->executor(), "Threads::join");
  impl_->join();
}

}  // namespace osm::inline v1::net
