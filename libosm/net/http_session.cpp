#include "net/http_session.hpp"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <iterator>
#include <type_traits>
#include <utility>

#include "net/listener.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kFirstRead = 4096;
// Beast reads no more of a body at once.
constexpr std::size_t kPiece = 64 * 1024;
constexpr std::chrono::milliseconds kLookForRoom{20};
// Each takes some hundred bytes of memory, also if it has four.
constexpr std::ptrdiff_t kMaxFields = 200;
// A client that has not seen a refusal yet sends so much of its request at most.
constexpr std::size_t kRest = 4 * 1024 * 1024;
constexpr const char* kHandlerFailed = "an HTTP handler failed";

Response refusal(int status, ErrorCode code, std::string message) {
  Response response = error_response({code, std::move(message)});
  response.status = status;
  return response;
}

// The response to bytes that are no acceptable request; nullopt: close without a response.
std::optional<Response> refusal_of(const beast::error_code& error,
                                   const HttpServerOptions& options) {
  if (error == http::error::header_limit) {
    return refusal(431, ErrorCode::kTooLarge,
                   "the request's header is larger than " +
                       std::to_string(options.max_header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return refusal(413, ErrorCode::kTooLarge,
                   options.max_body_bytes == 0
                       ? "requests have no body here"
                       : "the request's body is larger than " +
                             std::to_string(options.max_body_bytes) + " bytes");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != http::make_error_code(http::error::bad_method).category())
    return std::nullopt;
  return refusal(400, ErrorCode::kInvalidSyntax, "not an HTTP request: " + error.message());
}

// Calls code of the host. An exception of it must neither end the process nor show its text to
// clients.
template <class Call, class Answer = std::invoke_result_t<Call>>
Answer guard(const SessionContext& context, const Request& request, const Call& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    context.log(LogLevel::kError, kHandlerFailed, {{"path", request.path}, {"error", e.what()}});
  } catch (...) {
    context.log(LogLevel::kError, kHandlerFailed, {{"path", request.path}});
  }
  return error_response({ErrorCode::kInternal, "the handler failed; the log says why"});
}

}  // namespace

HttpSession::HttpSession(StreamProtocol::socket socket,
                         std::shared_ptr<const SessionContext> context,
                         std::function<void()> on_end)
    : wire_(std::move(socket)),
      context_(std::move(context)),
      on_end_(std::move(on_end)),
      client_(client_text(wire_.socket().socket().native_handle())),
      room_timer_(wire_.get_executor()) {}

HttpSession::~HttpSession() {
  release_body();
  on_end_();
}

void HttpSession::run() {
  asio::dispatch(wire_.get_executor(), [self = shared_from_this()] {
    if (self->context_->options.tls) return self->handshake();
    self->read();
  });
}

void HttpSession::end(bool at_once) {
  asio::post(wire_.get_executor(), [self = shared_from_this(), at_once] {
    self->finishing_ = true;
    if (at_once || !self->busy_) self->wire_.socket().close();
  });
}

void HttpSession::handshake() {
  auto session = context_->tls->session_for(context_->options.tls());
  if (!session.ok()) {
    context_->log(LogLevel::kWarning, "an HTTPS handshake cannot begin",
                  {{"error", session.error().text()}});
    return close();
  }
  // Head and body of a response are two writes; the second must not wait for an ACK of the first.
  beast::error_code ignored;
  wire_.socket().socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  wire_.start_tls(*std::move(session));
  wire_.socket().expires_after(context_->options.io_timeout);
  wire_.async_handshake(asio::ssl::stream_base::server,
                        [self = shared_from_this()](const beast::error_code& error) {
                          const tls::CleanErrorQueue clean;
                          if (!error) return self->read();
                          // Debug level only: anybody can cause this.
                          self->context_->log(LogLevel::kDebug, "an HTTPS handshake failed",
                                              {{"error", error.message()}});
                          self->wire_.socket().close();
                        });
}

void HttpSession::read() {
  if (finishing_) return close();
  if (buffer_.size() > 0) return read_request();
  // A client may idle until the first byte of a request; then io_timeout applies.
  wire_.socket().expires_after(std::exchange(fresh_, false) ? context_->options.first_timeout
                                                            : context_->options.idle_timeout);
  wire_.async_read_some(
      buffer_.prepare(kFirstRead),
      [self = shared_from_this()](const beast::error_code& error, std::size_t size) {
        const tls::CleanErrorQueue clean;
        if (error) return self->close();
        self->buffer_.commit(size);
        self->read_request();
      });
}

void HttpSession::read_request() {
  const HttpServerOptions& options = context_->options;
  parser_.emplace();
  parser_->header_limit(options.max_header_bytes);
  parser_->body_limit(options.max_body_bytes);
  wire_.socket().expires_after(options.io_timeout);
  http::async_read_header(wire_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            const tls::CleanErrorQueue clean;
                            if (error) return self->on_fault(error);
                            self->on_head();
                          });
}

void HttpSession::on_fault(beast::error_code error) {
  if (auto response = refusal_of(error, context_->options))
    return respond(*std::move(response), false);
  close();
}

void HttpSession::on_head() {
  const HttpRequest& message = parser_->get();
  keep_alive_ = message.keep_alive() && context_->options.keep_alive;
  head_ = message.method() == http::verb::head;
  if (std::distance(message.begin(), message.end()) > kMaxFields)
    return respond(
        refusal(431, ErrorCode::kTooLarge,
                "the request has more than " + std::to_string(kMaxFields) + " header fields"),
        false);
  // Browsers send Origin with requests of pages; legitimate clients are no pages.
  if (message.count(http::field::origin) != 0)
    return respond(refusal(403, ErrorCode::kPermissionDenied, "not for pages of a browser"), false);
  auto request = parse_target({message.target().data(), message.target().size()});
  if (!request.ok()) return respond(error_response(request.error()), keep_alive_);
  request_ = *std::move(request);
  request_.method = head_ ? "GET" : std::string(message.method_string());
  request_.content_type = std::string(message[http::field::content_type]);
  for (const auto& field : message)
    request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  request_.client = client_;
  if (context_->options.check_head) return check_head();
  read_body();
}

void HttpSession::run_on_handlers(std::function<void()> task) {
  if (!context_->begin_handler()) return close();
  busy_ = true;
  wire_.socket().expires_never();
  context_->handlers.post([context = context_, task = std::move(task)]() mutable {
    task();
    task = nullptr;
    context->handler_done();  // last: stop() returns with it
  });
}

void HttpSession::check_head() {
  run_on_handlers([self = shared_from_this()] {
    auto refused = guard(*self->context_, self->request_, [&]() -> std::optional<Response> {
      return self->context_->options.check_head(self->request_);
    });
    asio::post(self->wire_.get_executor(), [self, refused = std::move(refused)]() mutable {
      self->busy_ = false;
      if (refused) return self->respond(*std::move(refused), false);
      self->read_body();
    });
  });
}

// Reads the body piece by piece, so that the bytes of all bodies stay within the server's bound.
void HttpSession::read_body() {
  if (parser_->is_done()) return handle();
  parser_->eager(true);
  std::size_t needed = parser_->get().body().size() + kPiece;
  if (const auto length = parser_->content_length())
    needed = std::min<std::size_t>(needed, *length);
  if (needed > room_) {
    const Room room = context_->take_room(this, needed - room_);
    if (room == Room::kLater && waited_ < context_->options.io_timeout) return wait_for_room();
    if (room != Room::kTaken)
      return respond(refusal(503, ErrorCode::kUnavailable,
                             "too many bytes of requests arrive at once; try again later"),
                     false);
    if (std::exchange(room_, needed) == 0) {
      sending_since_ = std::chrono::steady_clock::now();
      wire_.socket().expires_after(context_->options.io_timeout);
    }
  }
  http::async_read_some(wire_, buffer_, *parser_,
                        [self = shared_from_this()](beast::error_code error, std::size_t) {
                          const tls::CleanErrorQueue clean;
                          if (error) return self->on_fault(error);
                          self->read_body();
                        });
}

void HttpSession::wait_for_room() {
  waited_ += kLookForRoom;
  room_timer_.expires_after(kLookForRoom);
  room_timer_.async_wait([self = shared_from_this()](const beast::error_code& error) {
    // The server may have ended the session meanwhile.
    if (error || !self->wire_.socket().socket().is_open()) return self->close();
    self->read_body();
  });
}

void HttpSession::release_body() {
  sending_since_ = kNot;
  waited_ = {};
  if (room_ > 0) context_->give_back(std::exchange(room_, 0));
}

void HttpSession::handle() {
  sending_since_ = kNot;
  request_.body = parser_->release().body();
  parser_.reset();
  run_on_handlers([self = shared_from_this()] {
    Response response = guard(*self->context_, self->request_,
                              [&] { return self->context_->handler(self->request_); });
    self->request_ = {};
    asio::post(self->wire_.get_executor(), [self, response = std::move(response)]() mutable {
      self->respond(std::move(response), self->keep_alive_);
    });
  });
}

void HttpSession::respond(Response response, bool keep_alive) {
  busy_ = true;
  // The client of a refused request may still be sending it.
  if (parser_ && !parser_->is_done()) keep_alive = false;
  response_ = {};
  response_.version(11);
  response_.result(static_cast<unsigned>(response.status));
  response_.set(http::field::content_type, response.content_type);
  response_.set("X-Content-Type-Options", "nosniff");
  response_.set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : response.headers) response_.set(name, value);
  // The handler may have said "Connection: close".
  keep_alive = keep_alive && !finishing_ && response_.keep_alive() && !is_old();
  response_.keep_alive(keep_alive);
  response_.content_length(response.body.size());
  if (!head_) response_.body() = std::move(response.body);
  room_ += response_.body().size();
  context_->hold(this, response_.body().size());
  wire_.socket().expires_after(context_->options.io_timeout);
  sending_since_ = kNot;
  writing_since_ = std::chrono::steady_clock::now();
  http::async_write(wire_, response_,
                    [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                      const tls::CleanErrorQueue clean;
                      if (error) return self->close();
                      self->on_written(keep_alive);
                    });
}

bool HttpSession::is_old() const {
  const std::chrono::seconds max_age = context_->options.max_age;
  return max_age.count() > 0 && std::chrono::steady_clock::now() - opened_ > max_age;
}

void HttpSession::on_written(bool keep_alive) {
  busy_ = false;
  writing_since_ = kNot;
  head_ = false;
  response_ = {};
  release_body();
  context_->became_idle();
  if (keep_alive) return read();
  wire_.socket().expires_after(std::chrono::seconds(1));
  if (parser_ && !parser_->is_done()) return close_after_rest(kRest);
  if (wire_.has_tls()) return close_tls();
  close();
}

// A connection that is closed with unread bytes is reset, and the client may lose the response.
void HttpSession::close_after_rest(std::size_t left) {
  if (!wire_.has_tls()) {
    beast::error_code ignored;
    wire_.socket().socket().shutdown(asio::socket_base::shutdown_send, ignored);
  }
  buffer_.clear();
  wire_.async_read_some(
      buffer_.prepare(kFirstRead),
      [self = shared_from_this(), left](const beast::error_code& error, std::size_t size) {
        const tls::CleanErrorQueue clean;
        if (error || size >= left) return self->close();
        self->close_after_rest(left - size);
      });
}

// Tells the peer that no data was cut off (RFC 8446, section 6.1).
void HttpSession::close_tls() {
  wire_.async_shutdown([self = shared_from_this()](const beast::error_code&) {
    const tls::CleanErrorQueue clean;
    self->close();
  });
}

void HttpSession::close() {
  beast::error_code ignored;
  wire_.socket().socket().shutdown(asio::socket_base::shutdown_send, ignored);
  wire_.socket().close();
}

}  // namespace osm::inline v1::net
