#include "net/http_client_connection.hpp"

#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <cerrno>
#include <utility>

#include "osm/certificate/secret_bytes.hpp"

namespace osm::inline v1::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Endpoints = std::vector<StreamProtocol::endpoint>;

// A smaller body is sent together with its head, in one packet and one TLS record.
constexpr std::size_t kJoinedBody = 16 * 1024;

ErrorCode code_of(const error_code& error) {
  if (error == boost::system::errc::no_such_file_or_directory) return ErrorCode::kNotFound;
  if (error == boost::system::errc::permission_denied) return ErrorCode::kPermissionDenied;
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return ErrorCode::kTooLarge;
  return ErrorCode::kUnavailable;
}

// Blocks if the host is a name.
Result<Endpoints> endpoints_of(asio::io_context& io, const Address& address) {
  asio::ip::tcp::resolver resolver(io);
  error_code error;
  Endpoints endpoints;
  for (const auto& entry : resolver.resolve(address.host, std::to_string(address.port), error))
    endpoints.emplace_back(entry.endpoint());
  if (error || endpoints.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the host of " + address.str() + " is unknown: " + error.message()};
  }
  return endpoints;
}

// Detects a vanished peer within half a minute, also on a silent stream. If the peer returns
// sooner, its retransmissions arrive before that. If it returns later, it may wait for a minute
// before it retries.
void tune(Wire::Socket::socket_type& socket, bool is_unix) {
  if (is_unix) return;
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);  // the connection works without the option
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Response response_of(const http::response_header<>& header) {
  Response response;
  response.status = static_cast<int>(header.result_int());
  response.content_type = std::string(header[http::field::content_type]);
  for (const auto& field : header)
    response.headers.emplace_back(field.name_string(), field.value());
  return response;
}

}  // namespace

Connection::Connection(ClientStrand strand, const HttpClientOptions& options,
                       tls::ClientContexts& contexts)
    : strand_(std::move(strand)), options_(options), contexts_(contexts), wire_(strand_) {}

Connection::~Connection() { forget(); }

void Connection::connect(std::function<void(Status)> done) {
  on_connected_ = std::move(done);
  if (options_.address.is_unix()) {
    endpoints_.emplace_back(asio::local::stream_protocol::endpoint(options_.address.unix_path));
    return connect_to_one();
  }
  error_code not_an_address;
  const auto address = asio::ip::make_address(options_.address.host, not_an_address);
  if (not_an_address) return look_up();
  endpoints_.emplace_back(asio::ip::tcp::endpoint(address, options_.address.port));
  connect_to_one();
}

void Connection::look_up() {
  auto task = [self = shared_from_this(), address = options_.address] {
    auto found = endpoints_of(self->strand_.get_inner_executor().context(), address);
    asio::post(self->strand_, [self, found = std::move(found)]() mutable {
      if (self->closed_) return;
      if (!found.ok()) return self->connected(found.error());
      self->endpoints_ = *std::move(found);
      self->connect_to_one();
    });
  };
  if (options_.blocking != nullptr) return options_.blocking->post(std::move(task));
  task();
}

void Connection::connect_to_one() {
  waits_for_ = "a connection";
  wire_.socket().async_connect(
      endpoints_,
      [self = shared_from_this()](const error_code& error, const StreamProtocol::endpoint&) {
        if (self->closed_) return;
        if (error) return self->connected(Error{code_of(error), error.message()});
        self->on_tcp();
      });
}

void Connection::on_tcp() {
  tune(wire_.socket().socket(), options_.address.is_unix());
  if (!options_.tls) return connected({});
  waits_for_ = "the TLS handshake";
  auto session = make_session();
  if (!session.ok()) return connected(std::move(session).error());
  wire_.start_tls(*std::move(session));
  wire_.async_handshake(asio::ssl::stream_base::client,
                        [self = shared_from_this()](const error_code& error) {
                          const tls::CleanErrorQueue clean;
                          if (!self->closed_) self->on_handshake(error);
                        });
}

Result<tls::Session> Connection::make_session() {
  OSM_TRY(ClientTls tls, options_.tls());
  const std::string name = tls.server_name.empty() ? options_.address.host : tls.server_name;
  OSM_TRY(SSL_CTX* const context, contexts_.of(std::move(tls)));
  return tls::make_client_session(*context, name);
}

void Connection::on_handshake(const ErrorCodeOf& error) {
  if (!error) return connected({});
  connected(Error{ErrorCode::kUnavailable,
                  "TLS handshake: " + tls::failure_text(wire_.session(), error)});
}

void Connection::connected(Status status) {
  connected_ = status.ok();
  std::exchange(on_connected_, nullptr)(std::move(status));
}

void Connection::exchange(std::string head, std::string_view body, bool head_only,
                          std::shared_ptr<ResponseReceiver> receiver) {
  receiver_ = receiver;
  head_ = std::move(head);
  head_only_ = head_only;
  interim_ = 0;
  reusable_ = false;
  if (body.size() <= kJoinedBody) head_ += std::exchange(body, {});
  const std::array<asio::const_buffer, 2> out{asio::buffer(head_),
                                              asio::buffer(body.data(), body.size())};
  asio::async_write(wire_, out,
                    [self = shared_from_this(), kept = std::move(receiver)](const error_code& error,
                                                                            std::size_t) {
                      const tls::CleanErrorQueue clean;
                      if (self->closed_) return;
                      // A server that refuses early closes while the request is still being
                      // written; read its response anyway.
                      self->write_error_ = error;
                      self->read_head();
                    });
}

void Connection::read_head() {
  parser_.emplace();
  parser_->header_limit(kMaxHead);
  parser_->body_limit(boost::none);  // the receiver limits the size
  parser_->skip(head_only_);
  http::async_read_header(
      wire_, buffer_, *parser_,
      [self = shared_from_this(), kept = receiver_.lock()](const error_code& error, std::size_t) {
        const tls::CleanErrorQueue clean;
        if (!self->closed_) self->on_head(error);
      });
}

void Connection::on_head(const ErrorCodeOf& error) {
  if (error) return end(failed(write_error_ ? write_error_ : error), !parser_->got_some());
  const auto& header = parser_->get();
  if (header.result_int() / 100 == 1) {  // RFC 9110, section 15.2: the final response follows
    if (header.result_int() == 101 || ++interim_ > kMaxInterim)
      return end(Error{ErrorCode::kUnavailable, "the server does not answer in HTTP/1.1"}, false);
    return read_head();
  }
  std::optional<std::uint64_t> length;
  if (const auto known = parser_->content_length()) length = *known;
  const auto receiver = receiver_.lock();
  if (!receiver->on_head(response_of(header), length)) return;
  read_body();
}

void Connection::read_body() {
  if (parser_->is_done()) return end({}, false);
  // Not eager: an eager parser keeps a piece until it has seen the start of the next one.
  chunk_.resize(kChunk);
  auto& body = parser_->get().body();
  body.data = chunk_.data();
  body.size = chunk_.size();
  http::async_read_some(
      wire_, buffer_, *parser_,
      [self = shared_from_this(), kept = receiver_.lock()](const error_code& error, std::size_t) {
        const tls::CleanErrorQueue clean;
        if (!self->closed_) self->on_body(error);
      });
}

void Connection::on_body(ErrorCodeOf error) {
  if (error == http::error::need_buffer) error = {};
  const std::size_t got = chunk_.size() - parser_->get().body().size;
  const auto receiver = receiver_.lock();
  if (got > 0 && !receiver->on_data({chunk_.data(), got})) return;
  if (error) return end(failed(error), false);
  read_body();
}

void Connection::end(Status status, bool untouched) {
  used_ = true;
  // Unexpected bytes would be taken for the next response.
  reusable_ = status.ok() && !write_error_ && parser_->keep_alive() && buffer_.size() == 0;
  write_error_ = {};
  parser_.reset();
  forget();
  const auto receiver = std::exchange(receiver_, {}).lock();
  receiver->on_end(std::move(status), untouched);
}

// Both directions may carry keys and tokens.
void Connection::forget() {
  erase(head_);
  OPENSSL_cleanse(chunk_.data(), chunk_.size());
  const auto spare = buffer_.prepare(buffer_.capacity() - buffer_.size());
  OPENSSL_cleanse(spare.data(), spare.size());
}

Status Connection::failed(const ErrorCodeOf& error) {
  std::string text = error.message();
  if (wire_.has_tls()) text = tls::failure_text(wire_.session(), error);
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    text = "the head of the response is larger than " + std::to_string(kMaxHead) + " bytes";
  if (error == http::error::end_of_stream || error == asio::ssl::error::stream_truncated)
    text = "the server closed the connection";
  if (error == http::error::partial_message)
    text = "the server closed the connection in the middle of its response";
  return Error{code_of(error), text};
}

bool Connection::is_reusable() {
  if (!reusable_ || closed_) return false;
  char byte = 0;
  const auto got = ::recv(wire_.socket().socket().native_handle(), &byte, 1,
                          MSG_PEEK | MSG_DONTWAIT);  // 0: closed; a byte: unexpected data
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void Connection::close() {
  if (std::exchange(closed_, true)) return;
  reusable_ = false;
  on_connected_ = nullptr;
  receiver_.reset();
  wire_.socket().close();
}

}  // namespace osm::inline v1::net
