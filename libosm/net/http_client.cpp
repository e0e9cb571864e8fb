#include "net/http_client.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>
#include <vector>

namespace osm::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Protocol = asio::generic::stream_protocol;

Error failed(const HttpCall& call, const beast::error_code& error) {
  const std::string where = call.method + ' ' + call.target + " at " + call.address.str();
  if (error == beast::error::timeout) {
    return {ErrorCode::kDeadlineExceeded,
            where + ": no answer within " + std::to_string(call.deadline.count()) + " ms"};
  }
  ErrorCode code = ErrorCode::kUnavailable;
  if (error == boost::system::errc::no_such_file_or_directory) code = ErrorCode::kNotFound;
  if (error == boost::system::errc::permission_denied) code = ErrorCode::kPermissionDenied;
  return {code, where + ": " + error.message()};
}

Result<std::vector<Protocol::endpoint>> endpoints_of(asio::io_context& io, const HttpCall& call) {
  std::vector<Protocol::endpoint> endpoints;
  if (call.address.is_unix()) {
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(call.address.unix_path));
    return endpoints;
  }
  beast::error_code error;
  asio::ip::tcp::resolver resolver(io);
  for (const auto& entry :
       resolver.resolve(call.address.host, std::to_string(call.address.port), error))
    endpoints.emplace_back(entry.endpoint());
  if (error || endpoints.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the host of " + call.address.str() + " is unknown: " + error.message()};
  }
  return endpoints;
}

// Runs one asynchronous step to its end; the stream's own deadline bounds it.
template <class Start>
beast::error_code run(asio::io_context& io, Start&& start) {
  beast::error_code result;
  start([&result](const beast::error_code& error, auto&&...) { result = error; });
  io.restart();
  io.run();
  return result;
}

http::request<http::string_body> message_of(const HttpCall& call) {
  http::request<http::string_body> message;
  message.version(11);
  message.method_string(call.method);
  message.target(call.target);
  message.set(http::field::host, call.address.is_unix() ? "localhost" : call.address.str());
  message.keep_alive(false);
  if (!call.body.empty()) message.set(http::field::content_type, call.content_type);
  message.body() = call.body;
  message.prepare_payload();
  return message;
}

}  // namespace

Result<Response> http_call(const HttpCall& call) {
  asio::io_context io;
  OSM_TRY(const std::vector<Protocol::endpoint> endpoints, endpoints_of(io, call));
  beast::basic_stream<Protocol> stream(io);
  stream.expires_after(call.deadline);
  beast::error_code error;
  for (const Protocol::endpoint& endpoint : endpoints) {
    stream.socket().close(error);
    error = run(io, [&](auto done) { stream.async_connect(endpoint, done); });
    if (!error) break;
  }
  if (error) return failed(call, error);

  const auto message = message_of(call);
  error = run(io, [&](auto done) { http::async_write(stream, message, done); });
  // A server that refuses early closes while we still write: what it said is worth reading.
  const beast::error_code write_error = error;
  if (error == beast::error::timeout) return failed(call, error);

  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(call.max_response_bytes);
  parser.skip(call.method == "HEAD");
  error = run(io, [&](auto done) { http::async_read(stream, buffer, parser, done); });
  if (error) return failed(call, write_error ? write_error : error);

  auto received = parser.release();
  Response response;
  response.status = static_cast<int>(received.result_int());
  response.content_type = std::string(received[http::field::content_type]);
  for (const auto& field : received)
    response.headers.emplace_back(field.name_string(), field.value());
  response.body = std::move(received.body());
  return response;
}

}  // namespace osm::net
