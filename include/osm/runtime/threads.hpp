// Threads for hosts without threads of their own: an event loop on any number of threads.
#pragma once

#include <memory>

#include "osm/detail/api.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::inline v1::net {

// A few threads and the event loop they run.
class OSM_API Threads {
 public:
  // Starts `count` threads. Blocking: no.
  explicit Threads(unsigned count);
  ~Threads();  // join()
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Runs on these threads; lives as long as they do. Thread: any.
  AsioExecutor& executor();

  // Runs remaining tasks, for a second at most, and ends the threads. Idempotent.
  // Thread: any but its own. Blocking: until the running tasks have returned.
  void join();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osm::inline v1::net
