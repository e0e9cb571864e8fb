// An io_context on real threads, and a folder that goes away with the test.
#pragma once

#include <stdlib.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "osm/asio_executor.hpp"

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

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "osm-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string file(const std::string& name) const { return (path / name).string(); }

  std::filesystem::path path;
};

}  // namespace osm::net
