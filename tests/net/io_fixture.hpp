// An io_context on real threads.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::net {

struct IoThreads {
  explicit IoThreads(int threads = 2) {
    for (int i = 0; i < threads; ++i) pool.emplace_back([this] { context.run(); });
  }
  ~IoThreads() { join(); }
  void join() {
    work.reset();
    context.stop();
    for (std::thread& thread : pool) thread.join();
    pool.clear();
  }

  boost::asio::io_context context;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work{
      boost::asio::make_work_guard(context)};
  AsioExecutor executor{context};
  std::vector<std::thread> pool;
};

using osm::testing::TemporaryDirectory;

}  // namespace osm::net
