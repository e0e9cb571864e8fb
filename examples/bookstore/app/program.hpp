// Common to every role of the bookstore program.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <string>

namespace bookstore {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

// Errors are values here too: auto [failed, n] = co_await socket.async_read_some(buffer, kUse).
inline constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

struct HostPort {
  std::string host;
  std::string port;
};
// Parses "HOST:PORT"; throws std::invalid_argument, which main() reports.
HostPort parse_host_port(const std::string& text);

// Seconds since 1970, for reports that are compared across processes.
double wall_seconds();

// Writes `text` to `path` so that a reader sees the old or the new content, whole.
void write_file(const std::string& path, const std::string& text);

asio::awaitable<void> sleep_until(std::chrono::steady_clock::time_point when);

}  // namespace bookstore
