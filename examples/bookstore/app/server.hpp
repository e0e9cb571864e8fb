// The servers of the bookstore: HTTP (bookstore, bookwarehouse) and the line-based TCP ledger.
#pragma once

#include <optional>
#include <string>

#include "program.hpp"

namespace bookstore {

struct HttpServerOptions {
  HostPort listen;
  std::string service;              // "bookstore"
  std::string version;              // "v1"
  std::optional<HostPort> restock;  // the warehouse that is told of sold books
};

// GET /books-bought, GET /buy-a-book/new, POST /restock-books; every answer is JSON that says which
// version answered and whom its proxy authenticated. Serves until the context stops.
asio::awaitable<void> serve_http(HttpServerOptions options);

// Answers every line with "<its number on this connection> <line>".
asio::awaitable<void> serve_ledger(HostPort listen);

}  // namespace bookstore
