// The daemon's threads: an io_context run by as many as asked for.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "net/asio_executor.hpp"

namespace osm::controller {

class Threads {
 public:
  explicit Threads(unsigned count) : running_(count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        context_.run();
        std::lock_guard lock(mutex_);
        if (--running_ == 0) idle_.notify_all();
      });
    }
  }
  ~Threads() { join(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  net::AsioExecutor& executor() { return executor_; }

  // Runs what is left, which should be little, and ends. Idempotent; not from one of them.
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
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> guard_{
      boost::asio::make_work_guard(context_)};
  net::AsioExecutor executor_{context_};
  std::mutex mutex_;
  std::condition_variable idle_;
  unsigned running_;
  std::vector<std::thread> threads_;
};

}  // namespace osm::controller
