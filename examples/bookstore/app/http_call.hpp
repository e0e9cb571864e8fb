// One keep-alive HTTP/1.1 connection of a client. Never retries.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "program.hpp"

namespace bookstore {

// Result of one request: a status, or (status 0) how the connection failed.
struct Outcome {
  int status = 0;
  std::string body;
  std::string error;
  bool ok() const { return status >= 200 && status < 300; }
};

class HttpConnection {
 public:
  HttpConnection(HostPort target, std::chrono::milliseconds timeout)
      : target_(std::move(target)), timeout_(timeout) {}

  // Connects first if need be.
  asio::awaitable<Outcome> request(boost::beast::http::verb verb, const std::string& path,
                                   const std::string& body = "");

  // Connections opened so far: 1 as long as every request found the first one alive.
  int connections() const { return connections_; }

 private:
  asio::awaitable<std::string> connect();

  HostPort target_;
  std::chrono::milliseconds timeout_;
  std::optional<boost::beast::tcp_stream> stream_;
  boost::beast::flat_buffer buffer_;
  int connections_ = 0;
};

}  // namespace bookstore
