// A socket with optional TLS, as one stream type for Beast.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <optional>
#include <utility>

#include "net/tls.hpp"

namespace osm::inline v1::net {

using StreamProtocol = boost::asio::generic::stream_protocol;

// Completion handlers begin with tls::CleanErrorQueue, or ERR_clear_error(). Thread: the socket's
// strand.
class Wire {
 public:
  using Socket = boost::beast::basic_stream<StreamProtocol>;
  using executor_type = Socket::executor_type;

  template <class SocketOrExecutor>
  explicit Wire(SocketOrExecutor&& of) : socket_(std::forward<SocketOrExecutor>(of)) {}

  executor_type get_executor() { return socket_.get_executor(); }
  // The socket below TLS. Its time limits apply to everything.
  Socket& socket() { return socket_; }

  // Sends all bytes through `session` from now on; its handshake follows.
  void start_tls(tls::Session session) { tls_.emplace(socket_, session.release()); }
  bool has_tls() const { return tls_.has_value(); }
  // Precondition of these: has_tls().
  const SSL& session() { return *tls_->native_handle(); }
  template <class Handler>
  void async_handshake(boost::asio::ssl::stream_base::handshake_type side, Handler&& handler) {
    tls_->async_handshake(side, std::forward<Handler>(handler));
    ERR_clear_error();
  }
  template <class Handler>
  void async_shutdown(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
    ERR_clear_error();
  }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return socket_.async_read_some(buffers, std::forward<Handler>(handler));
    tls_->async_read_some(buffers, std::forward<Handler>(handler));
    ERR_clear_error();
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (!tls_) return socket_.async_write_some(buffers, std::forward<Handler>(handler));
    tls_->async_write_some(buffers, std::forward<Handler>(handler));
    ERR_clear_error();
  }

 private:
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace osm::inline v1::net
