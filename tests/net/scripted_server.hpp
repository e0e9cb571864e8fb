// A server that does to its clients exactly what a test says: one thread per connection, with TLS
// or without, and a count of the connections.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "osm/net/address.hpp"

namespace osm::net {

// One accepted connection, seen from the server. Calls block; all are over when the peer is gone.
class Peer {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  Peer(Socket socket, int number) : number_(number), socket_(std::move(socket)) {}

  int number() const { return number_; }  // 1, 2, 3 ... in the order they were accepted

  bool start_tls(boost::asio::ssl::context& context) {
    tls_.emplace(socket_, context);
    boost::system::error_code error;
    tls_->handshake(boost::asio::ssl::stream_base::server, error);
    return !error;
  }
  SSL* session() { return tls_->native_handle(); }

  // The next request's line, when all of it has come. Empty: the client has closed.
  std::string next_request() {
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos)
      if (!receive()) return "";
    const std::string head = received_.substr(0, end);
    std::size_t length = 0;
    if (const auto at = head.find("Content-Length: "); at != std::string::npos)
      length = std::stoul(head.substr(at + 16));
    while (received_.size() < end + 4 + length)
      if (!receive()) return "";
    body_ = received_.substr(end + 4, length);
    head_ = head + "\r\n";
    received_.erase(0, end + 4 + length);
    return head.substr(0, head.find("\r\n"));
  }
  // Parts of the request that next_request() returned. An absent header is empty.
  const std::string& body() const { return body_; }
  std::string header(const std::string& name) const {
    const auto at = head_.find("\r\n" + name + ": ");
    if (at == std::string::npos) return "";
    const auto from = at + name.size() + 4;
    return head_.substr(from, head_.find("\r\n", from) - from);
  }
  bool send(std::string_view text) {
    boost::system::error_code error;
    const auto bytes = boost::asio::buffer(text.data(), text.size());
    tls_ ? boost::asio::write(*tls_, bytes, error) : boost::asio::write(socket_, bytes, error);
    return !error;
  }
  bool answer(std::string_view body) {
    return send("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                std::string(body));
  }
  // Answers every request with its own line, until the client closes.
  void echo() {
    for (std::string line; !(line = next_request()).empty();) answer(line);
  }
  // Until the client has closed.
  void wait_for_close() {
    while (receive()) received_.clear();
  }
  void close_tls() {
    boost::system::error_code ignored;
    tls_->shutdown(ignored);
  }

 private:
  bool receive() {
    char bytes[4096];
    boost::system::error_code error;
    const auto into = boost::asio::buffer(bytes);
    const std::size_t got = tls_ ? tls_->read_some(into, error) : socket_.read_some(into, error);
    received_.append(bytes, got);
    return !error;
  }

  const int number_;
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  std::string received_;
  std::string head_;
  std::string body_;
};

class ScriptedServer {
 public:
  using Script = std::function<void(Peer&)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    acceptor_.open(boost::asio::ip::tcp::v4());
    acceptor_.bind({boost::asio::ip::make_address("127.0.0.1"), 0});
    acceptor_.listen();
    port_ = acceptor_.local_endpoint().port();
    accepting_ = std::thread([this] { accept(); });
  }
  ~ScriptedServer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    accepting_.join();
    {
      std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
  }

  Address address() const { return {"127.0.0.1", port_, ""}; }
  int connections() const { return connections_; }
  // Number of connections that have not ended yet.
  std::size_t open() const {
    std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  void accept() {
    for (;;) {
      boost::system::error_code error;
      Peer::Socket socket(context_);
      acceptor_.accept(socket, error);
      if (error) return;
      const int fd = socket.native_handle();
      {
        std::lock_guard lock(mutex_);
        open_.push_back(fd);
      }
      auto peer = std::make_shared<Peer>(std::move(socket), ++connections_);
      threads_.emplace_back([this, fd, peer = std::move(peer)]() mutable {
        script_(*peer);
        std::lock_guard lock(mutex_);
        std::erase(open_, fd);
        peer.reset();
      });
    }
  }

  const Script script_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_};
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<int> open_;
  std::atomic<int> connections_{0};
  std::thread accepting_;
  std::vector<std::thread> threads_;  // of accepting_ until it ended
};

}  // namespace osm::net
