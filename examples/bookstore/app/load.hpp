// Load that notices everything: paced requests over keep-alive connections and long TCP streams,
// no retries. Its report names each failure with its time, so that any window can be judged later.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "program.hpp"

namespace bookstore {

struct LoadOptions {
  HostPort http;
  std::string path;
  int rate = 250;  // requests per second over all connections
  int connections = 8;
  HostPort ledger;
  int streams = 4;
  std::chrono::milliseconds timeout{2000};
  std::string report;  // file, rewritten every half second
};

class Load : public std::enable_shared_from_this<Load> {
 public:
  explicit Load(LoadOptions options);
  ~Load();

  // Starts everything; it goes on until the context stops.
  void start(asio::io_context& context);
  // {"seconds": [{"t", "requests", "lines"}], "failures": [{"t", "what"}], "http_connections",
  //  "tcp_connections", "latency_ms": {"p50", "p99", "max"}}
  void write_report() const;

 private:
  struct State;
  asio::awaitable<void> request_loop(int index);
  asio::awaitable<void> stream_loop(int index);
  asio::awaitable<void> report_loop();

  std::unique_ptr<State> state_;
};

}  // namespace bookstore
