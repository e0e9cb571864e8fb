// One connection of the server: reads a request, calls the handler, writes the response, and
// repeats.
#pragma once

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "net/tls.hpp"
#include "net/wire.hpp"
#include "osm/net/http_server.hpp"

namespace osm::inline v1::net {

// Shared state of a server's sessions. It outlives the server while sessions end.
struct SessionContext {
  HttpServerOptions options;
  Handler handler;
  Executor& handlers;
  // Logs a line that a client can cause; each message, a literal, has a limit. Thread: any.
  std::function<void(LogLevel, std::string_view message, std::vector<LogField> fields)> log;
  const std::shared_ptr<tls::ServerContexts> tls;  // used when options.tls is set
  // True if a handler may start; handler_done() follows each true. Thread: any.
  std::function<bool()> begin_handler;
  std::function<void()> handler_done;
  std::function<void()> became_idle;  // a session has answered its request. Thread: any.
};

// Lives on its socket's strand; keeps itself alive while an operation is pending.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(StreamProtocol::socket socket, std::shared_ptr<const SessionContext> context,
              std::function<void()> on_end);
  ~HttpSession();

  void run();
  // Ends the session now, or, if it is not idle and `at_once` is false, after its response.
  // Thread: any.
  void end(bool at_once);
  // No request is being handled or answered. Thread: any.
  bool is_idle() const { return !busy_; }
  // Its client has not taken the response for this long; zero: none is being written. Thread: any.
  std::chrono::steady_clock::duration stalled_for() const {
    const auto since = writing_since_.load();
    return since == kNotWriting ? std::chrono::steady_clock::duration(0)
                                : std::chrono::steady_clock::now() - since;
  }

 private:
  using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;
  static constexpr std::chrono::steady_clock::time_point kNotWriting{};

  void handshake();
  void read();
  void read_request();
  void on_read(boost::beast::error_code error);
  void handle();
  void respond(Response response, bool keep_alive);
  bool is_old() const;
  void on_written(bool keep_alive);
  void close();
  void close_tls();

  Wire wire_;
  const std::shared_ptr<const SessionContext> context_;
  const std::function<void()> on_end_;
  const std::string client_;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  bool head_ = false;
  bool fresh_ = true;               // no request has begun yet
  std::atomic<bool> busy_ = false;  // a request is being handled or its response written
  std::atomic<std::chrono::steady_clock::time_point> writing_since_ = kNotWriting;
  bool finishing_ = false;
};

}  // namespace osm::inline v1::net
