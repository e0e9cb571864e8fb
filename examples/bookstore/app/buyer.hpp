// A shopper: one request after another, each told on standard output as a line of JSON.
#pragma once

#include <chrono>
#include <string>

#include "program.hpp"

namespace bookstore {

struct BuyerOptions {
  HostPort target;
  std::string path;
  std::chrono::milliseconds interval{200};
  std::chrono::milliseconds timeout{2000};
};

// {"t": 1700000000.1, "status": 200, "version": "v1", "caller": "spiffe://...", "error": ""}
asio::awaitable<void> buy(BuyerOptions options);

// The same over TCP: one connection and line each time; status 200 stands for the right reply.
asio::awaitable<void> write_ledger(BuyerOptions options);

}  // namespace bookstore
