// One connection of the server: reads a request, calls the handler, writes the response, and
// repeats.
#pragma once

#include <atomic>
#include <boost/asio/steady_timer.hpp>
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

class HttpSession;

// The answer to a session that needs room for its body.
enum class Room {
  kTaken,
  kLater,  // there is none now
  kNever,  // its body has been arriving for the longest time: it gives way
};

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
  // Room for so many more bytes of a session's body; give_back() follows each kTaken. Thread: any.
  std::function<Room(const HttpSession* taker, std::size_t bytes)> take_room;
  // Counts the bytes of a session's response, whatever room there is; give_back() follows.
  std::function<void(const HttpSession* holder, std::size_t bytes)> hold;
  std::function<void(std::size_t bytes)> give_back;
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
  // It has had room for a body, and not all of it, for this long; zero: it has none. Thread: any.
  std::chrono::steady_clock::duration sending_for() const { return time_since(sending_since_); }
  // Its client has not taken the response for this long; zero: none is being written. Thread: any.
  std::chrono::steady_clock::duration stalled_for() const { return time_since(writing_since_); }

 private:
  using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;
  using Time = std::chrono::steady_clock::time_point;
  static constexpr Time kNot{};

  static std::chrono::steady_clock::duration time_since(const std::atomic<Time>& begun) {
    const Time since = begun.load();
    return since == kNot ? std::chrono::steady_clock::duration(0)
                         : std::chrono::steady_clock::now() - since;
  }
  void handshake();
  void read();
  void read_request();
  void on_fault(boost::beast::error_code error);
  void on_head();
  void check_head();
  void read_body();
  void wait_for_room();
  void release_body();
  void handle();
  void run_on_handlers(std::function<void()> task);
  void respond(Response response, bool keep_alive);
  bool is_old() const;
  void on_written(bool keep_alive);
  void close();
  void close_after_rest(std::size_t left);
  void close_tls();

  Wire wire_;
  const std::shared_ptr<const SessionContext> context_;
  const std::function<void()> on_end_;
  const std::string client_;
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  boost::beast::http::response<boost::beast::http::string_body> response_;
  Request request_;                      // its body follows last
  bool keep_alive_ = true;               // as the client asks
  std::size_t room_ = 0;                 // taken for its body, and its response's
  std::chrono::milliseconds waited_{0};  // for room
  boost::asio::steady_timer room_timer_;
  std::atomic<Time> sending_since_ = kNot;
  bool head_ = false;
  bool fresh_ = true;               // no request has begun yet
  std::atomic<bool> busy_ = false;  // a request is being handled or its response written
  std::atomic<Time> writing_since_ = kNot;
  bool finishing_ = false;
};

}  // namespace osm::inline v1::net
