#include "net/http_session.hpp"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <utility>

namespace osm::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

Response refusal(int status, ErrorCode code, std::string message) {
  Response response = error_response({code, std::move(message)});
  response.status = status;
  return response;
}

// The response to bytes that are not an acceptable request; nullopt: just close.
std::optional<Response> refusal_of(const beast::error_code& error,
                                   const HttpServerOptions& options) {
  if (error == http::error::header_limit) {
    return refusal(431, ErrorCode::kTooLarge,
                   "the request's header is larger than " +
                       std::to_string(options.max_header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return refusal(
        413, ErrorCode::kTooLarge,
        "the request's body is larger than " + std::to_string(options.max_body_bytes) + " bytes");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != http::make_error_code(http::error::bad_method).category())
    return std::nullopt;
  return refusal(400, ErrorCode::kInvalidSyntax, "not an HTTP request: " + error.message());
}

Response run_handler(const SessionContext& context, const Request& request) {
  // A handler's exception must not take the process down, nor tell a stranger its text.
  try {
    return context.handler(request);
  } catch (const std::exception& e) {
    context.log.error("an HTTP handler failed", {{"path", request.path}, {"error", e.what()}});
  } catch (...) {
    context.log.error("an HTTP handler failed", {{"path", request.path}});
  }
  return error_response({ErrorCode::kInternal, "the handler failed; the log says why"});
}

}  // namespace

HttpSession::HttpSession(StreamProtocol::socket socket,
                         std::shared_ptr<const SessionContext> context,
                         std::function<void()> on_end)
    : stream_(std::move(socket)), context_(std::move(context)), on_end_(std::move(on_end)) {}

HttpSession::~HttpSession() { on_end_(); }

void HttpSession::run() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->read(); });
}

void HttpSession::finish() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->finishing_ = true;
    if (!self->busy_) self->stream_.close();
  });
}

void HttpSession::cut() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->finishing_ = true;
    self->stream_.close();
  });
}

void HttpSession::read() {
  if (finishing_) return close();
  const HttpServerOptions& options = context_->options;
  parser_.emplace();
  parser_->header_limit(options.max_header_bytes);
  parser_->body_limit(options.max_body_bytes);
  stream_.expires_after(buffer_.size() > 0 ? options.io_timeout : options.idle_timeout);
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                            if (error) return self->on_read(error);
                            self->stream_.expires_after(self->context_->options.io_timeout);
                            http::async_read(
                                self->stream_, self->buffer_, *self->parser_,
                                [self](beast::error_code e, std::size_t) { self->on_read(e); });
                          });
}

void HttpSession::on_read(beast::error_code error) {
  if (!error) return handle();
  if (auto response = refusal_of(error, context_->options))
    return respond(*std::move(response), false);
  close();
}

void HttpSession::handle() {
  const HttpRequest& message = parser_->get();
  const bool keep_alive = message.keep_alive();
  head_ = message.method() == http::verb::head;
  auto request = parse_target({message.target().data(), message.target().size()});
  if (!request.ok()) return respond(error_response(request.error()), keep_alive);
  request->method = head_ ? "GET" : std::string(message.method_string());
  request->body = parser_->release().body();
  if (!context_->begin_handler()) return close();
  busy_ = true;
  stream_.expires_never();
  context_->handlers.post(
      [self = shared_from_this(), request = *std::move(request), keep_alive]() mutable {
        const auto context = self->context_;
        const auto executor = self->stream_.get_executor();
        Response response = run_handler(*context, request);
        asio::post(executor,
                   [self = std::move(self), response = std::move(response), keep_alive]() mutable {
                     self->respond(std::move(response), keep_alive);
                   });
        context->handler_done();  // last: stop() returns with it
      });
}

void HttpSession::respond(Response response, bool keep_alive) {
  busy_ = true;
  keep_alive = keep_alive && !finishing_;
  response_ = {};
  response_.version(11);
  response_.result(static_cast<unsigned>(response.status));
  response_.set(http::field::content_type, response.content_type);
  response_.set("X-Content-Type-Options", "nosniff");
  response_.set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : response.headers) response_.set(name, value);
  response_.keep_alive(keep_alive);
  response_.content_length(response.body.size());
  if (!head_) response_.body() = std::move(response.body);
  stream_.expires_after(context_->options.io_timeout);
  http::async_write(stream_, response_,
                    [self = shared_from_this(), keep_alive](beast::error_code error, std::size_t) {
                      if (error) return self->close();
                      self->on_written(keep_alive);
                    });
}

void HttpSession::on_written(bool keep_alive) {
  busy_ = false;
  head_ = false;
  if (keep_alive) return read();
  close();
}

void HttpSession::close() {
  beast::error_code ignored;
  stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  stream_.close();
}

}  // namespace osm::net
